/* The counts of all go first, so that every rank makes its output before the elements come. */
#include "collective/collectives.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/call.h"

_Static_assert(sizeof(size_t) == sizeof(int64_t), "counts travel as 64-bit numbers");

static ls_status check_input(const char *name, ls_dtype dtype, const void *input, size_t count) {
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
static ls_status give_output(struct ls_group *group, ls_status status, void *made, void **output) {
    if (status)
        ls_free(made);
    else
        *output = made;
    return status ? ls_call_finish(group, status) : LS_OK;
}

ls_status ls_ragged_all_gather(struct ls_group *group, const ls_all_gather_options *call) {
    void *made = NULL;
    ls_status status = check_input(call->name, call->dtype, call->input, call->count);
    if (status) return status;
    LS_CLEANUP(ls_free_pointer) size_t *ones = list_of(group, 1), *found = list_of(group, 0);
    if (!ones || !found) return ls_call_finish(group, LS_RESOURCE_EXHAUSTED);
    status = ls_group_all_gather(group, LS_ALL_GATHER(call->name, &call->count, found, ones, LS_INT64));
    if (status) return status;
    status = make_output(group, call->name, call->dtype, found, &made);
    if (!status) status = ls_group_all_gather(group, LS_ALL_GATHER(call->name, call->input, made, found, call->dtype));
    if (!status) memcpy(call->received, found, (size_t)ls_group_size(group) * sizeof(*found));
    return give_output(group, status, made, call->allocated);
}

ls_status ls_ragged_all_to_all(struct ls_group *group, const ls_all_to_all_options *call) {
    void *made = NULL;
    size_t total = 0;
    ls_status status = ls_call_check_name(call->name);
    if (!status) status = ls_call_sum_counts(group, call->name, call->dtype, call->counts, &total);
    if (!status) status = check_input(call->name, call->dtype, call->input, total);
    if (status) return status;
    LS_CLEANUP(ls_free_pointer) size_t *ones = list_of(group, 1), *found = list_of(group, 0);
    if (!ones || !found) return ls_call_finish(group, LS_RESOURCE_EXHAUSTED);
    const struct ls_all_to_all counts = {call->name, LS_INT64, call->counts, ones, found, ones};
    status = ls_group_all_to_all(group, &counts);
    if (status) return status;
    status = make_output(group, call->name, call->dtype, found, &made);
    const struct ls_all_to_all parts = {call->name, call->dtype, call->input, call->counts, made, found};
    if (!status) status = ls_group_all_to_all(group, &parts);
    if (!status) memcpy(call->received, found, (size_t)ls_group_size(group) * sizeof(*found));
    return give_output(group, status, made, call->allocated);
}

ls_status ls_ragged_broadcast(struct ls_group *group, const ls_broadcast_options *call) {
    bool gives = ls_group_rank(group) == call->root;
    size_t found = gives ? call->count : 0;
    ls_status status = check_input(call->name, call->dtype, call->data, found);
    if (!status) status = ls_group_broadcast(group, LS_BROADCAST(call->name, &found, 1, LS_INT64, call->root));
    if (status) return status;
    void *made = NULL;
    status = ls_call_check_bytes(call->name, call->dtype, found);
    size_t bytes = found * ls_dtype_size(call->dtype);
    if (!status && !(made = ls_alloc_aligned(bytes ? bytes : 1)))
        status = ls_fail_memory("the output of a collective", bytes);
    if (!status && gives && found) memcpy(made, call->data, bytes);
    if (!status) status = ls_group_broadcast(group, LS_BROADCAST(call->name, made, found, call->dtype, call->root));
    if (!status) *call->received = found;
    return give_output(group, status, made, call->allocated);
}
