/* The source sends size and digest, then the bytes. Who receives keeps them beside what it has until the digest is
 * right, so that the loss of the source tears nothing. */
#include "strategy/handover.h"

#include <string.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/lines.h"

struct heading {
    int64_t size; /* bytes; negative: the source could not give it, and this is the status */
    char digest[72];
};
_Static_assert(sizeof(struct heading) % sizeof(int64_t) == 0, "it is broadcast as words");

static size_t words(int64_t size) {
    return ls_state_round((size_t)size) / sizeof(int64_t);
}

/* What this process holds: a copy, of whole words. */
static ls_status encode(const struct ls_membership *membership, struct ls_bytes *bytes) {
    const struct ls_bytes *kept = &membership->inherited;
    if (!kept->data) return membership->source.encode(membership->source.context, &bytes->data, &bytes->size);
    bytes->data = ls_alloc(words((int64_t)kept->size) * sizeof(int64_t));
    if (!bytes->data) return ls_fail_memory("a copy of the state", kept->size);
    memcpy(bytes->data, kept->data, kept->size);
    bytes->size = kept->size;
    return LS_OK;
}

static void describe(const struct ls_membership *membership, struct ls_bytes *bytes, struct heading *heading) {
    ls_status status = encode(membership, bytes);
    if (!status) status = ls_sha256(bytes->data, bytes->size, heading->digest);
    heading->size = status ? -(int64_t)status : (int64_t)bytes->size;
}

static ls_status check_digest(const struct ls_bytes *bytes, const struct heading *heading) {
    char digest[65];
    ls_status status = ls_sha256(bytes->data, bytes->size, digest);
    if (status || strcmp(digest, heading->digest) == 0) return status;
    return ls_fail(LS_DATA_LOSS, "the state of %zu bytes has changed on its way", bytes->size);
}

static ls_status broadcast(struct ls_membership *membership, int source, const struct heading *heading,
                           struct ls_bytes *bytes) {
    if (heading->size <= 0)
        return ls_fail(heading->size ? (ls_status)-heading->size : LS_INTERNAL, "rank %d cannot give its state",
                       source);
    if (!bytes->data) {
        bytes->data = ls_alloc(words(heading->size) * sizeof(int64_t));
        bytes->size = (size_t)heading->size;
    }
    if (!bytes->data) return ls_fail_memory("the state of another worker", (size_t)heading->size);
    ls_status status =
        ls_group_broadcast(membership->group, "state", source, LS_INT64, bytes->data, words(heading->size));
    return status ? status : check_digest(bytes, heading);
}

ls_status ls_state_copy(struct ls_membership *membership, const struct ls_generation *generation) {
    struct heading heading = {0};
    struct ls_bytes bytes = {NULL, 0};
    if (membership->rank == generation->source) describe(membership, &bytes, &heading);
    ls_status status = ls_group_broadcast(membership->group, "heading of the state", generation->source, LS_INT64,
                                          &heading, sizeof(heading) / sizeof(int64_t));
    heading.digest[sizeof(heading.digest) - 1] = 0;
    if (!status) status = broadcast(membership, generation->source, &heading, &bytes);
    if (!status && generation->lacks) {
        ls_membership_keep(membership, bytes);
        membership->position = generation->position;
        ls_log_info(&membership->log, "took the state of position %lld over from rank %d (%zu bytes)",
                    (long long)generation->position, generation->source, bytes.size);
        return LS_OK;
    }
    ls_free(bytes.data);
    return status;
}

ls_status ls_state_compare(const struct ls_membership *membership, const char *what, const char *given,
                           const char *own) {
    struct ls_difference difference;
    if (!ls_lines_differ(given, own, &difference)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "%s differs: '%s' in the %s that goes on, '%s' on rank %d, which came back; start it as it was "
                   "started before",
                   difference.field, difference.first, what, difference.second, membership->rank);
}

void ls_membership_keep(struct ls_membership *membership, struct ls_bytes bytes) {
    ls_free(membership->inherited.data);
    membership->inherited = bytes;
    membership->holds = true;
}

struct ls_bytes ls_membership_take_inherited(struct ls_membership *membership) {
    struct ls_bytes taken = membership->inherited;
    membership->inherited = (struct ls_bytes){NULL, 0};
    return taken;
}

void ls_membership_commit(struct ls_membership *membership) {
    membership->holds = true;
    membership->position++;
}
