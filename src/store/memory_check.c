/* The sizes are those of the real division: a server of few chunks may have much more than the mean. */
#include "store/memory_check.h"

#include <stdio.h>

#include "base/status.h"

#define RING         ((size_t)256 << 10) /* of each worker, at the most */
#define MOST_SERVERS 4096

/* Of asynchronous training: a push of each worker that is not decided yet, and variables on their way to it. */
static size_t bytes_under_way(const struct ls_terms_model *terms, int workers, size_t held) {
    size_t blobs = 2 * (1 + (size_t)terms->moments) + 1;
    return terms->asynchronous ? 2 * (size_t)workers * (held / blobs) : 0;
}

size_t ls_memory_check_needed(const struct ls_terms_model *terms, int workers, int servers, int server) {
    size_t held = ls_holding_measure(terms, servers, server);
    return held + bytes_under_way(terms, workers, held) + (size_t)workers * RING;
}

static bool all_fit(const struct ls_terms_model *terms, int workers, int servers, size_t bytes) {
    for (int s = 0; s < servers; s++)
        if (ls_memory_check_needed(terms, workers, servers, s) > bytes) return false;
    return true;
}

int ls_memory_check_suffices(const struct ls_terms_model *terms, int workers, int servers, size_t bytes) {
    size_t rings = (size_t)workers * RING;
    if (bytes <= rings) return 0;
    size_t least = ls_holding_measure(terms, 1, 0) / (bytes - rings); /* the mean would fit no fewer */
    int count = servers + 1;
    if (least > MOST_SERVERS) return 0;
    for (count = count > (int)least ? count : (int)least; count <= MOST_SERVERS; count += 1 + count / 32)
        if (all_fit(terms, workers, count, bytes)) return count;
    return 0;
}

struct ls_memory_need ls_memory_check_find(const struct ls_memory_check *check) {
    size_t allowed = check->limit.bytes, left = allowed > check->others ? allowed - check->others : 0;
    size_t needed = check->others + ls_memory_check_needed(check->terms, check->workers, check->servers, check->server);
    if (needed <= allowed) return (struct ls_memory_need){0};
    int enough = ls_memory_check_suffices(check->terms, check->workers, check->servers, left);
    return (struct ls_memory_need){(int64_t)needed, (int64_t)allowed, check->limit.of, enough};
}

ls_status ls_memory_check_told(const struct ls_terms_model *terms, int rank, int servers,
                               const struct ls_memory_need *need) {
    char advice[128] = "no number of parameter servers suffices";
    if (need->needed <= need->allowed) return LS_OK;
    if (need->enough > 0)
        (void)snprintf(advice, sizeof(advice), "%lld parameter servers suffice", (long long)need->enough);
    return ls_fail(
        LS_RESOURCE_EXHAUSTED,
        "rank %d, a parameter server of %d, needs %lld bytes for its part of model %lld (%d moment%s, %d cop%s "
        "of each element), and %s allows %lld: %s",
        rank, servers, (long long)need->needed, (long long)terms->model, terms->moments, terms->moments == 1 ? "" : "s",
        terms->replicas, terms->replicas == 1 ? "y" : "ies", ls_memory_limit_name(need->of), (long long)need->allowed,
        advice);
}
