/* A token bucket limits how often one source of connections reaches what is expensive: gRPC and TLS handshakes
 * (docs/security.md, "Strangers"). A bucket holds at most LS_RATE_BURST tokens and gains LS_RATE_PER_SECOND a second; a
 * connection takes one, and a connection that finds none is refused. So a source may begin with a burst of 256 and then
 * goes on at 25 a second. A connection that proves to be a worker's gives its token back, so that workers do not empty
 * their own bucket. All functions belong to one thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define LS_RATE_SOURCES    64
#define LS_RATE_BURST      256 /* tokens of a source at first, and at most */
#define LS_RATE_PER_SECOND 25  /* tokens that a source gets back a second */

/* An IPv4 address, or the first 64 bits of an IPv6 one: a host may take any address below its own network's prefix. */
struct ls_rate_source {
    uint8_t bytes[8];
};
struct ls_rate_source ls_rate_limit_source_of(const struct sockaddr_storage *address);
bool ls_rate_limit_source_equal(const struct ls_rate_source *a, const struct ls_rate_source *b);

struct ls_rate_limit {
    struct {
        struct ls_rate_source source;
        double tokens;
        int64_t counted; /* the time at which tokens was right; 0: the place is free */
    } entries[LS_RATE_SOURCES];
};
/* Takes a token. Returns false if the source has none left. */
bool ls_rate_limit_take(struct ls_rate_limit *limit, const struct ls_rate_source *source, int64_t now);
void ls_rate_limit_give_back(struct ls_rate_limit *limit, const struct ls_rate_source *source);
