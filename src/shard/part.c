/* A copy of what is away is made when the first one is to come, and stays until the owners have taken what is new. */
#include "shard/part.h"

#include <string.h>

#include "base/memory.h"

void ls_parts_free(struct ls_shard_part *parts, size_t count) {
    for (size_t i = 0; i < count; i++) ls_free(parts[i].copy);
    ls_free(parts);
}

size_t ls_parts_floats(const struct ls_shard_part *parts, size_t count, unsigned owners) {
    size_t floats = 0;
    for (size_t i = 0; i < count; i++)
        if (parts[i].owners & owners) floats += parts[i].count;
    return floats;
}

static ls_status make_copy(struct ls_shard_part *part) {
    size_t size = part->count * sizeof(float);
    if (!part->copy) part->copy = ls_alloc_aligned(size);
    return part->copy ? LS_OK : ls_fail_memory("a copy of what its owners keep", size);
}

ls_status ls_parts_expect(struct ls_shard_part *parts, size_t count) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (!(parts[i].owners & LS_PARTS_AWAY)) continue;
        parts[i].version = LS_PART_NOWHERE;
        status = make_copy(&parts[i]);
    }
    return status;
}

void ls_parts_arrived(struct ls_shard_part *parts, size_t count, int64_t version) {
    for (size_t i = 0; i < count; i++) parts[i].version = version;
}

bool ls_parts_are_here(const struct ls_shard_part *parts, size_t count, int64_t version) {
    bool here = true;
    for (size_t i = 0; i < count; i++)
        if (parts[i].owners & LS_PARTS_AWAY) here = here && parts[i].copy && parts[i].version == version;
    return here;
}

void ls_parts_settle(struct ls_shard_part *parts, size_t count, bool keep) {
    for (size_t i = 0; i < count; i++) {
        struct ls_shard_part *part = &parts[i];
        part->origin = LS_FROM_STEPS;
        if (part->version == LS_PART_ELSEWHERE) part->version = LS_PART_NOWHERE;
        if (!keep && part->owners & LS_PARTS_AWAY) ls_free(ls_steal(part->copy));
    }
}

bool ls_parts_are_new(const struct ls_shard_part *parts, size_t count) {
    bool new = false;
    for (size_t i = 0; i < count; i++) new = new || parts[i].origin != LS_FROM_STEPS;
    return new;
}

ls_status ls_part_set(struct ls_shard_part *part, const float *values) {
    part->version = values ? LS_PART_NOWHERE : LS_PART_ELSEWHERE;
    if (!values) ls_free(ls_steal(part->copy));
    if (!values) return LS_OK;
    ls_status status = make_copy(part);
    if (!status) memcpy(part->copy, values, part->count * sizeof(*values));
    return status;
}

const char *ls_part_way_back(bool returns) {
    return returns ? "all go back to the newest checkpoint"
                   : "start all tasks again, to go on from the newest checkpoint";
}
