/* Strategy.gather: all replicas' values, concatenated in replica order along an axis. */
#include "base/shape.h"
#include "base/new.h"
#include "base/need.h"
#include "collective/collectives.h"
#include "collective/group.h"
#include "strategy/strategy.h"

#include <stdio.h>
#include <string.h>

/* Every replica's extent along the axis, by replica id, and the part of the shape that all share. */
struct gathering {
    ls_strategy *strategy;
    ls_dtype dtype;
    int axis;
    ls_shape shape;   /* of the result */
    int64_t *extents; /* [replicas] */
    size_t outer, inner_bytes;
};

static ls_status check_local(const struct gathering *gathering, const void *const *values, const ls_shape *shapes) {
    if (gathering->axis < 0 || gathering->axis >= shapes[0].rank)
        return ls_fail(LS_INVALID_ARGUMENT, "axis %d is not an axis of a value of rank %d%s", gathering->axis,
                       shapes[0].rank, shapes[0].rank ? "" : " (scalars cannot be gathered: give them shape (1))");
    for (int i = 0; i < gathering->strategy->local_count; i++) {
        ls_shape same = shapes[i];
        if (ls_shape_count(&same) < 0) return ls_fail(LS_INVALID_ARGUMENT, "local replica %d has a bad shape", i);
        if (!values[i] && ls_shape_count(&same)) return ls_fail(LS_INVALID_ARGUMENT, "values[%d] is NULL", i);
        same.dims[gathering->axis] = shapes[0].dims[gathering->axis];
        if (!ls_shape_equal(&same, &shapes[0]))
            return ls_fail(LS_INVALID_ARGUMENT, "local replicas 0 and %d have shapes that differ outside axis %d", i,
                           gathering->axis);
    }
    return LS_OK;
}

/* Sends all shapes to all workers. The shapes must agree outside the axis. */
static ls_status exchange_shapes(struct gathering *gathering, const ls_shape *shapes) {
    ls_strategy *strategy = gathering->strategy;
    size_t words = sizeof(ls_shape) / sizeof(int64_t), replicas = (size_t)strategy->total_count;
    int workers = strategy->runtime->size;
    LS_CLEANUP(ls_free_pointer) ls_shape *all = ls_alloc_array(replicas, sizeof(*all));
    LS_CLEANUP(ls_free_pointer) size_t *counts = ls_alloc_array((size_t)workers, sizeof(*counts));
    gathering->extents = ls_alloc_array(replicas, sizeof(*gathering->extents));
    if (!all || !counts || !gathering->extents) return ls_fail_memory("shapes", replicas * sizeof(*all));
    for (int w = 0; w < workers; w++) counts[w] = words * (size_t)(strategy->first[w + 1] - strategy->first[w]);
    char name[64]; /* with the axis, so that another one elsewhere is an error */
    (void)snprintf(name, sizeof(name), "gather/shapes along axis %d", gathering->axis);
    ls_status status =
        ls_group_all_gather(strategy->runtime->group, LS_ALL_GATHER(name, shapes, all, counts, LS_INT64));
    if (status) return status;
    gathering->shape = all[0];
    gathering->shape.dims[gathering->axis] = 0;
    for (size_t r = 0; r < replicas; r++) {
        ls_shape same = all[r];
        if (same.rank != all[0].rank || ls_shape_count(&same) < 0)
            return ls_fail(LS_INVALID_ARGUMENT, "replica %zu has rank %d, replica 0 has rank %d", r, same.rank,
                           all[0].rank);
        same.dims[gathering->axis] = all[0].dims[gathering->axis];
        if (!ls_shape_equal(&same, &all[0]))
            return ls_fail(LS_INVALID_ARGUMENT, "replicas 0 and %zu have shapes that differ outside axis %d", r,
                           gathering->axis);
        gathering->extents[r] = all[r].dims[gathering->axis];
        int64_t *sum = &gathering->shape.dims[gathering->axis];
        if (__builtin_add_overflow(*sum, gathering->extents[r], sum)) *sum = -1;
        if (ls_shape_count(&gathering->shape) < 0)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "the gathered value is more than memory can hold: replica %zu adds %lld", r,
                           (long long)gathering->extents[r]);
    }
    return LS_OK;
}

static size_t value_bytes(const struct gathering *gathering, size_t replica) {
    return gathering->outer * (size_t)gathering->extents[replica] * gathering->inner_bytes;
}

/* values one after the other, in replica order, whole */
static ls_status gather_values(const struct gathering *gathering, const void *const *values, char *flat) {
    ls_strategy *strategy = gathering->strategy;
    size_t width = ls_dtype_size(gathering->dtype);
    int workers = strategy->runtime->size;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, counts, (size_t)workers, "counts");
    size_t offset = 0;
    for (int w = 0; w < workers; w++) {
        for (int r = strategy->first[w]; r < strategy->first[w + 1]; r++)
            counts[w] += value_bytes(gathering, (size_t)r) / width;
        if (w < strategy->runtime->rank) offset += counts[w] * width;
    }
    char *own = flat + offset;
    for (int i = 0; i < strategy->local_count; i++) {
        size_t bytes = value_bytes(gathering, (size_t)strategy->replicas[i].id);
        if (bytes) memcpy(own, values[i], bytes);
        own += bytes;
    }
    return ls_group_all_gather(strategy->runtime->group,
                               LS_ALL_GATHER("gather", flat + offset, flat, counts, gathering->dtype));
}

/* Turns one value after the other into one row after the other. The all-gather brings whole values, one behind the
 * other. That is the result for axis 0, where outer is 1. For another axis a row of the result takes a row of each
 * value. */
static void interleave(const struct gathering *gathering, const char *flat, char *output) {
    size_t replicas = (size_t)gathering->strategy->total_count;
    for (size_t o = 0; o < gathering->outer; o++) {
        const char *value = flat;
        for (size_t r = 0; r < replicas; r++) {
            size_t row = (size_t)gathering->extents[r] * gathering->inner_bytes;
            memcpy(output, value + o * row, row);
            output += row;
            value += value_bytes(gathering, r);
        }
    }
}

static ls_status gather(struct gathering *gathering, const void *const *values, const ls_shape *shapes, void **output) {
    ls_status status = check_local(gathering, values, shapes);
    if (!status) status = exchange_shapes(gathering, shapes);
    if (status) return status;
    gathering->outer = 1;
    gathering->inner_bytes = ls_dtype_size(gathering->dtype);
    for (int i = 0; i < gathering->axis; i++) gathering->outer *= (size_t)shapes[0].dims[i];
    for (int i = gathering->axis + 1; i < shapes[0].rank; i++) gathering->inner_bytes *= (size_t)shapes[0].dims[i];
    size_t count = (size_t)ls_shape_count(&gathering->shape), bytes;
    if (__builtin_mul_overflow(count, ls_dtype_size(gathering->dtype), &bytes))
        return ls_fail_memory("a gathered value", SIZE_MAX);
    LS_CLEANUP(ls_free_pointer) char *flat = ls_alloc_aligned(bytes);
    LS_CLEANUP(ls_free_pointer) char *result = ls_alloc_aligned(bytes);
    if (!flat || !result) return ls_fail_memory("a gathered value", bytes);
    status = gather_values(gathering, values, flat);
    if (status) return status;
    if (bytes) interleave(gathering, flat, result); /* a shape of no elements may have many rows of none */
    *output = ls_steal(result);
    return LS_OK;
}

ls_status ls_gather(ls_strategy *strategy, ls_dtype dtype, const void *const *values, const ls_shape *shapes, int axis,
                    void **output, ls_shape *shape) {
    LS_NEED(strategy, values, shapes, output, shape);
    struct gathering gathering = {.strategy = strategy, .dtype = dtype, .axis = axis};
    ls_status status = ls_dtype_check(dtype);
    if (!status) status = gather(&gathering, values, shapes, output);
    if (!status) *shape = gathering.shape;
    ls_free(gathering.extents);
    return status;
}
