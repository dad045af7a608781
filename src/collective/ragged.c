/* The counts of all go first, so that every rank makes its output before the elements come. */
#include "collective/collectives.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/call.h"

_Static_assert(sizeof(size_t) == sizeof(int64_t), "counts travel as 64-bit numbers");

static ls_status check_ragged(const char *name, ls_dtype dtype, const void *input, size_t count) {
    ls_status status = ls_call_check_name(name);
    if (!status) status = ls_call_check_bytes(name, dtype, count);
    return !status && count && !input ? ls_call_missing_memory(name, "input") : status;
}

/* A list of a number for each rank, all of them value; NULL, and an error, without memory. */
static size_t *list_of(const struct ls_group *group, size_t value) {
    size_t size = (size_t)ls_group_size(group), *list = ls_alloc_array(size, sizeof(*list));
    for (size_t i = 0; list && i < size; i++) list[i] = value;
    if (!list) (void)ls_fail_memory("counts", size * sizeof(*list));
    return list;
}

/* An output for the elements of all ranks. */
static ls_status make_output(const struct ls_group *group, const char *name, ls_dtype dtype, const size_t *counts,
                             void **output) {
    size_t total = 0;
    ls_status status = ls_call_sum_counts(group, name, dtype, counts, &total);
    if (status) return status;
    size_t bytes = total * ls_dtype_size(dtype);
    *output = ls_alloc_aligned(bytes ? bytes : 1);
    return *output ? LS_OK : ls_fail_memory("the output of a collective", bytes);
}

/* A rank that cannot go on between the two calls ends the group, since the others wait for it. */
static ls_status finish_ragged(struct ls_group *group, ls_status status, void *made, void **output) {
    if (status)
        ls_free(made);
    else
        *output = made;
    return status ? ls_call_finish(group, status) : LS_OK;
}

ls_status ls_ragged_all_gather(struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                               size_t count, void **output, size_t *counts) {
    void *made = NULL;
    ls_status status = check_ragged(name, dtype, input, count);
    if (status) return status;
    LS_CLEANUP(ls_free_pointer) size_t *ones = list_of(group, 1), *found = list_of(group, 0);
    if (!ones || !found) return ls_call_finish(group, LS_RESOURCE_EXHAUSTED);
    status = ls_group_all_gather(group, name, LS_INT64, &count, ones, found);
    if (status) return status;
    status = make_output(group, name, dtype, found, &made);
    if (!status) status = ls_group_all_gather(group, name, dtype, input, found, made);
    if (!status) memcpy(counts, found, (size_t)ls_group_size(group) * sizeof(*counts));
    return finish_ragged(group, status, made, output);
}

ls_status ls_ragged_all_to_all(struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                               const size_t *send_counts, void **output, size_t *receive_counts) {
    void *made = NULL;
    size_t total = 0;
    ls_status status = ls_call_check_name(name);
    if (!status) status = ls_call_sum_counts(group, name, dtype, send_counts, &total);
    if (!status) status = check_ragged(name, dtype, input, total);
    if (status) return status;
    LS_CLEANUP(ls_free_pointer) size_t *ones = list_of(group, 1), *found = list_of(group, 0);
    if (!ones || !found) return ls_call_finish(group, LS_RESOURCE_EXHAUSTED);
    status = ls_group_all_to_all(group, &(struct ls_all_to_all){name, LS_INT64, send_counts, ones, found, ones});
    if (status) return status;
    status = make_output(group, name, dtype, found, &made);
    if (!status)
        status = ls_group_all_to_all(group, &(struct ls_all_to_all){name, dtype, input, send_counts, made, found});
    if (!status) memcpy(receive_counts, found, (size_t)ls_group_size(group) * sizeof(*receive_counts));
    return finish_ragged(group, status, made, output);
}

ls_status ls_ragged_broadcast(struct ls_group *group, const char *name, int root, const void *input, size_t size,
                              void **output, size_t *bytes) {
    bool gives = ls_group_rank(group) == root;
    size_t found = gives ? size : 0;
    ls_status status = check_ragged(name, LS_UINT8, input, found);
    if (!status) status = ls_group_broadcast(group, name, root, LS_INT64, &found, 1);
    if (status) return status;
    void *made = NULL;
    status = ls_call_check_bytes(name, LS_UINT8, found);
    if (!status && !(made = ls_alloc_aligned(found ? found : 1)))
        status = ls_fail_memory("the output of a collective", found);
    if (!status && gives && found) memcpy(made, input, found);
    if (!status) status = ls_group_broadcast(group, name, root, LS_UINT8, made, found);
    if (!status) *bytes = found;
    return finish_ragged(group, status, made, output);
}
