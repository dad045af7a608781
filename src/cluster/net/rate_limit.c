/* The table has buckets for LS_RATE_SOURCES sources. A source without a bucket counts as one with all tokens, so to
 * forget a bucket is to fill it. A new source therefore takes the place of the fullest bucket: its source gains the
 * least by that, and a source that has spent its tokens keeps its empty bucket.
 *
 * No timer refills the buckets. An entry keeps `tokens` as they were at the time `counted`, and tokens_at adds the gain
 * of the time since. */
#include "cluster/net/rate_limit.h"

#include <math.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"

struct ls_rate_source ls_rate_limit_source_of(const struct sockaddr_storage *address) {
    struct ls_rate_source source = {{0}};
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

bool ls_rate_limit_source_equal(const struct ls_rate_source *a, const struct ls_rate_source *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

static int find_entry(const struct ls_rate_limit *limit, const struct ls_rate_source *source) {
    for (int i = 0; i < LS_RATE_SOURCES; i++)
        if (limit->entries[i].counted && ls_rate_limit_source_equal(&limit->entries[i].source, source)) return i;
    return -1;
}

static double tokens_at(const struct ls_rate_limit *limit, int index, int64_t now) {
    if (!limit->entries[index].counted) return LS_RATE_BURST;
    double seconds = (double)(now - limit->entries[index].counted) / (double)LS_SECOND;
    return fmin(limit->entries[index].tokens + seconds * LS_RATE_PER_SECOND, LS_RATE_BURST);
}

static int find_fullest(const struct ls_rate_limit *limit, int64_t now) {
    int fullest = 0;
    for (int i = 1; i < LS_RATE_SOURCES; i++)
        if (tokens_at(limit, i, now) > tokens_at(limit, fullest, now)) fullest = i;
    return fullest;
}

bool ls_rate_limit_take(struct ls_rate_limit *limit, const struct ls_rate_source *source, int64_t now) {
    int index = find_entry(limit, source);
    double tokens = index < 0 ? LS_RATE_BURST : tokens_at(limit, index, now);
    if (index < 0) index = find_fullest(limit, now);
    bool taken = tokens >= 1;
    limit->entries[index].source = *source;
    limit->entries[index].tokens = tokens - taken;
    limit->entries[index].counted = now;
    return taken;
}

void ls_rate_limit_give_back(struct ls_rate_limit *limit, const struct ls_rate_source *source) {
    int index = find_entry(limit, source);
    if (index >= 0) limit->entries[index].tokens = fmin(limit->entries[index].tokens + 1, LS_RATE_BURST);
}
