/* How often each source of connections may be heard by what is expensive: a bucket of tokens a source, for the last
 * sources. Whoever turns out to be a worker gives its token back. Belongs to one thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define LS_BUDGET_SOURCES 64
#define LS_BUDGET_MOST    256 /* tokens of a source at first, and at most */
#define LS_BUDGET_SECOND  25  /* tokens that a source gets back a second */

/* An IPv4 address, or the network part of an IPv6 one. */
struct ls_source {
    uint8_t bytes[8];
};
struct ls_source ls_source_of(const struct sockaddr_storage *address);
bool ls_source_equal(const struct ls_source *a, const struct ls_source *b);

struct ls_budget {
    struct {
        struct ls_source source;
        double tokens;
        int64_t counted; /* when tokens was right; 0: the place is free */
    } entries[LS_BUDGET_SOURCES];
};
/* False: the source has none left. */
bool ls_budget_take(struct ls_budget *budget, const struct ls_source *source, int64_t now);
void ls_budget_give_back(struct ls_budget *budget, const struct ls_source *source);
