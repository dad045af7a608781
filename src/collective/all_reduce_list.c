/* All-reduce of a list of arrays. Small arrays go together through a buffer that stays in the caches, and which is not
 * filled where they lie side by side already; a large array is added where it lies. Counts alone say what
 * goes together, so that all ranks do alike. The tree adds an element wherever it stands; RING's order depends on the
 * place, so there each array goes alone. The fingerprint of every part has a digest of the whole list: ranks whose
 * lists differ are told before the first byte is moved. */
#include "collective/collectives.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/call.h"
#include "collective/group_private.h"

/* Bytes. A copy there and back of an array of LARGE takes about as long as a call of its own. */
enum { LARGE = 256 * 1024, FUSED = 4 * 1024 * 1024 };

/* Arrays [first, end) of the list, of so many bytes together. */
struct part {
    size_t first, end, bytes;
};

/* ---- the list ---- */

static ls_status check_list(const struct ls_all_reduce_list *list) {
    size_t sum = 0;
    const char *name = list->call.name;
    if (list->count && (!list->inputs || !list->outputs || !list->counts))
        return ls_call_missing_memory(name, "inputs, outputs or counts");
    for (size_t i = 0; i < list->count; i++) {
        if (__builtin_add_overflow(sum, list->counts[i], &sum))
            return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': the sum of counts overflows at array %zu", name, i);
        if (list->counts[i] && (!list->inputs[i] || !list->outputs[i]))
            return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': %s[%zu] is NULL", name,
                           list->inputs[i] ? "outputs" : "inputs", i);
    }
    return ls_call_check_bytes(name, list->call.dtype, sum);
}

static uint64_t digest_list(const struct ls_all_reduce_list *list) {
    uint64_t digest = ls_frame_digest(0, list->count);
    for (size_t i = 0; i < list->count; i++) digest = ls_frame_digest(digest, list->counts[i]);
    return digest;
}

static size_t array_bytes(const struct ls_all_reduce_list *list, size_t index) {
    return list->counts[index] * ls_dtype_size(list->call.dtype);
}

/* The part that begins with array first: one array, or small ones that fit the buffer together. */
static struct part part_at(const struct ls_all_reduce_list *list, size_t first) {
    struct part part = {first, first, 0};
    while (part.end < list->count) {
        size_t bytes = array_bytes(list, part.end);
        bool alone = bytes >= LARGE || list->call.communication == LS_RING || list->call.op == LS_ADASUM;
        if (part.end > first && (alone || part.bytes + bytes > FUSED)) break;
        part.bytes += bytes;
        part.end++;
        if (alone) break;
    }
    return part;
}

/* ---- a part ---- */

/* True if the arrays of the part lie one behind the other. */
static bool lie_together(const struct ls_all_reduce_list *list, const struct part *part, const void *const *arrays) {
    for (size_t i = part->first; i + 1 < part->end; i++)
        if ((uintptr_t)arrays[i] + array_bytes(list, i) != (uintptr_t)arrays[i + 1]) return false;
    return true;
}

static ls_status reserve_buffer(struct ls_group *group, size_t bytes) {
    if (bytes <= group->fusion_size) return LS_OK;
    ls_free(group->fusion);
    group->fusion_size = 0;
    group->fusion = ls_alloc_aligned(bytes);
    if (!group->fusion) return ls_fail_memory("the arrays of an all_reduce that go together", bytes);
    group->fusion_size = bytes;
    return LS_OK;
}

static void gather_up(const struct ls_all_reduce_list *list, const struct part *part, unsigned char *to) {
    for (size_t i = part->first; i < part->end; to += array_bytes(list, i), i++)
        if (list->counts[i]) memcpy(to, list->inputs[i], array_bytes(list, i));
}

static void spread_out(const struct ls_all_reduce_list *list, const struct part *part, const unsigned char *from) {
    for (size_t i = part->first; i < part->end; from += array_bytes(list, i), i++)
        if (list->counts[i]) memcpy(list->outputs[i], from, array_bytes(list, i));
}

static ls_status reduce_part(struct ls_group *group, const struct ls_all_reduce_list *list, const struct part *part,
                             struct ls_all_reduce *call) {
    bool from_place = lie_together(list, part, list->inputs);
    bool to_place = lie_together(list, part, (const void *const *)list->outputs);
    ls_status status = from_place && to_place ? LS_OK : reserve_buffer(group, part->bytes);
    if (status) return ls_call_finish(group, status);
    if (!from_place) gather_up(list, part, group->fusion);
    const void *input = from_place ? list->inputs[part->first] : group->fusion;
    void *output = to_place ? list->outputs[part->first] : group->fusion;
    call->count = part->bytes / ls_dtype_size(call->dtype);
    call->inputs = &input;
    call->outputs = &output;
    status = ls_group_all_reduce(group, call);
    if (!status && !to_place) spread_out(list, part, group->fusion);
    return status;
}

ls_status ls_group_all_reduce_list(struct ls_group *group, const struct ls_all_reduce_list *list) {
    const void *input = NULL;
    void *output = NULL;
    struct ls_all_reduce call = list->call;
    ls_status status = ls_group_all_reduce_check(&call);
    if (!status) status = check_list(list);
    if (status) return status;
    call.list = digest_list(list);
    call.count = 0;
    call.inputs = &input;
    call.outputs = &output;
    size_t next = 0;
    do { /* an empty list is compared too */
        struct part part = part_at(list, next);
        if (part.end == part.first)
            status = ls_group_all_reduce(group, &call);
        else
            status = reduce_part(group, list, &part, &call);
        next = part.end;
    } while (!status && next < list->count);
    return status;
}
