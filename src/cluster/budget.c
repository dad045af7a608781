/* A source that is not known has all tokens. The one with the most tokens left makes room for another: the others would
 * gain by being forgotten. */
#include "cluster/budget.h"

#include <math.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"

struct ls_source ls_source_of(const struct sockaddr_storage *address) {
    struct ls_source source = {{0}};
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } copy = {*address};
    if (address->ss_family == AF_INET)
        memcpy(source.bytes, &copy.v4.sin_addr, 4);
    else if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&copy.v6.sin6_addr))
        memcpy(source.bytes, &copy.v6.sin6_addr.s6_addr[12], 4);
    else if (address->ss_family == AF_INET6)
        memcpy(source.bytes, &copy.v6.sin6_addr, 8);
    return source;
}

bool ls_source_equal(const struct ls_source *a, const struct ls_source *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

static int find(const struct ls_budget *budget, const struct ls_source *source) {
    for (int i = 0; i < LS_BUDGET_SOURCES; i++)
        if (budget->entries[i].counted && ls_source_equal(&budget->entries[i].source, source)) return i;
    return -1;
}

static double tokens_at(const struct ls_budget *budget, int index, int64_t now) {
    if (!budget->entries[index].counted) return LS_BUDGET_MOST;
    double seconds = (double)(now - budget->entries[index].counted) / (double)LS_SECOND;
    return fmin(budget->entries[index].tokens + seconds * LS_BUDGET_SECOND, LS_BUDGET_MOST);
}

static int find_fullest(const struct ls_budget *budget, int64_t now) {
    int fullest = 0;
    for (int i = 1; i < LS_BUDGET_SOURCES; i++)
        if (tokens_at(budget, i, now) > tokens_at(budget, fullest, now)) fullest = i;
    return fullest;
}

bool ls_budget_take(struct ls_budget *budget, const struct ls_source *source, int64_t now) {
    int index = find(budget, source);
    double tokens = index < 0 ? LS_BUDGET_MOST : tokens_at(budget, index, now);
    if (index < 0) index = find_fullest(budget, now);
    bool taken = tokens >= 1;
    budget->entries[index].source = *source;
    budget->entries[index].tokens = tokens - taken;
    budget->entries[index].counted = now;
    return taken;
}

void ls_budget_give_back(struct ls_budget *budget, const struct ls_source *source) {
    int index = find(budget, source);
    if (index >= 0) budget->entries[index].tokens = fmin(budget->entries[index].tokens + 1, LS_BUDGET_MOST);
}
