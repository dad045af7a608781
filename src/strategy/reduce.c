/* Strategy.reduce: over all replicas of all workers, and with an axis. */
#include "strategy/strategy.h"

#include "base/options.h"
#include "base/shape.h"
#include "base/memory.h"
#include "base/need.h"
#include "collective/collectives.h"
#include "collective/group.h"
#include "collective/schedule/reduce.h"

#include <string.h>

ls_status ls_reduce_all_replicas(ls_strategy *strategy, const ls_all_reduce_options *what) {
    const struct ls_all_reduce call = {
        .name = what->name,
        .communication = strategy->runtime->communication,
        .op = what->op,
        .dtype = what->dtype,
        .count = what->count,
        .leaves = {strategy->first},
        .inputs = what->inputs,
        .outputs = what->outputs,
    };
    return ls_group_all_reduce(strategy->runtime->group, &call);
}

/* Reduces inputs, one a local replica, into output. The outputs of the other local replicas go to scratch. */
static ls_status reduce_into(ls_strategy *strategy, const ls_all_reduce_options *what) {
    size_t bytes = what->count * ls_dtype_size(what->dtype);
    void *outputs[LS_MAX_LOCAL_DEVICES] = {what->output};
    LS_CLEANUP(ls_free_pointer) char *scratch = NULL;
    if (strategy->local_count > 1 && !(scratch = ls_alloc_aligned(bytes))) return ls_fail_memory("a reduction", bytes);
    for (int i = 1; i < strategy->local_count; i++) outputs[i] = scratch; /* all receive the same bytes */
    ls_all_reduce_options call = *what;
    call.outputs = outputs;
    return ls_reduce_all_replicas(strategy, &call);
}

ls_status ls_reduce(ls_strategy *strategy, ls_reduce_op op, ls_dtype dtype, const void *const *values, size_t count,
                    void *output) {
    LS_NEED(strategy, values);
    ls_status status = ls_reduce_check(op, dtype);
    return status ? status
                  : reduce_into(strategy, LS_ALL_REDUCE("reduce", NULL, output, count, dtype, op, .inputs = values));
}

/* A tensor seen along one axis: outer rows of extent times inner elements. */
struct axis_view {
    size_t outer, extent, inner;
};

static ls_status view_axis(const ls_shape *shape, int axis, struct axis_view *view) {
    if (axis < 0 || axis >= shape->rank || ls_shape_count(shape) < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "axis %d is not an axis of a value of rank %d", axis, shape->rank);
    *view = (struct axis_view){1, (size_t)shape->dims[axis], 1};
    for (int i = 0; i < axis; i++) view->outer *= (size_t)shape->dims[i];
    for (int i = axis + 1; i < shape->rank; i++) view->inner *= (size_t)shape->dims[i];
    return LS_OK;
}

/* Combines the rows of the axis in order; an extent of 0 leaves the op's neutral element for SUM and MEAN only. */
static void reduce_rows(ls_reduce_op op, ls_dtype dtype, const struct axis_view *view, const char *value,
                        char *output) {
    size_t row = view->inner * ls_dtype_size(dtype);
    ls_combine_fn *combine = ls_reduce_combine(op, dtype);
    for (size_t o = 0; row && o < view->outer; o++) {
        char *target = output + o * row;
        const char *source = value + o * view->extent * row;
        if (view->extent)
            memcpy(target, source, row);
        else
            memset(target, 0, row);
        for (size_t e = 1; e < view->extent; e++) combine(target, target, source + e * row, view->inner);
    }
}

/* The sum over all replicas of the axis' extents. */
static ls_status global_extent(ls_strategy *strategy, const ls_shape *shapes, int axis, int64_t *total) {
    int64_t extents[LS_MAX_LOCAL_DEVICES];
    const void *inputs[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < strategy->local_count; i++) {
        extents[i] = shapes[i].dims[axis];
        inputs[i] = &extents[i];
    }
    return reduce_into(strategy, LS_ALL_REDUCE("reduce", NULL, total, 1, LS_INT64, .inputs = inputs));
}

/* True of the result too, which has no axis: an extent of 0 makes a value of no bytes. */
static bool is_too_large(const struct axis_view *view, size_t element) {
    size_t bytes = element;
    return __builtin_mul_overflow(bytes, view->outer, &bytes) || __builtin_mul_overflow(bytes, view->inner, &bytes) ||
           __builtin_mul_overflow(bytes, view->extent ? view->extent : 1, &bytes) || bytes > PTRDIFF_MAX;
}

static ls_status check_axis_call(const ls_strategy *strategy, const ls_all_reduce_options *what, const ls_shape *shapes,
                                 int axis) {
    struct axis_view first = {0}, view = {0};
    ls_reduce_op op = what->op;
    ls_dtype dtype = what->dtype;
    ls_status status = ls_reduce_check(op, dtype);
    if (status) return status;
    if (dtype != LS_FLOAT32 && dtype != LS_FLOAT64)
        return ls_fail(LS_INVALID_ARGUMENT, "ls_reduce_axis takes float32 and float64, not %s", ls_dtype_name(dtype));
    if ((status = view_axis(&shapes[0], axis, &first))) return status;
    for (int i = 0; i < strategy->local_count; i++) {
        if ((status = view_axis(&shapes[i], axis, &view))) return status;
        if (is_too_large(&view, ls_dtype_size(dtype)))
            return ls_fail(LS_INVALID_ARGUMENT, "local replica %d has a shape of more than memory can hold", i);
        if (!what->inputs[i] && view.outer && view.extent && view.inner)
            return ls_fail(LS_INVALID_ARGUMENT, "values[%d] is NULL", i);
        if (view.outer != first.outer || view.inner != first.inner)
            return ls_fail(LS_INVALID_ARGUMENT, "local replicas 0 and %d have shapes that differ outside axis %d", i,
                           axis);
        if (!view.extent && op != LS_SUM && op != LS_MEAN)
            return ls_fail(LS_INVALID_ARGUMENT, "local replica %d has no elements along axis %d: %s of nothing", i,
                           axis, ls_option_names_reduce_op(op));
    }
    return LS_OK;
}

/* Each replica reduces its own axis first, and one vector without the axis is exchanged. MEAN divides by the extents of
 * all replicas together, not by replicas (tf.distribute.Strategy.reduce with an axis): a replica with a short last
 * batch has less weight. */
ls_status ls_reduce_axis(ls_strategy *strategy, ls_reduce_op op, ls_dtype dtype, const void *const *values,
                         const ls_shape *shapes, int axis, void *output) {
    LS_NEED(strategy, values, shapes, output);
    ls_status status =
        check_axis_call(strategy, LS_ALL_REDUCE("reduce", .op = op, .dtype = dtype, .inputs = values), shapes, axis);
    if (status) return status;
    struct axis_view view = {0};
    (void)view_axis(&shapes[0], axis, &view);
    size_t count = view.outer * view.inner, bytes = count * ls_dtype_size(dtype);
    LS_CLEANUP(ls_free_pointer) char *rows = ls_alloc_array((size_t)strategy->local_count, bytes ? bytes : 1);
    if (!rows) return ls_fail_memory("a reduction", (size_t)strategy->local_count * bytes);
    const void *inputs[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < strategy->local_count; i++) {
        (void)view_axis(&shapes[i], axis, &view);
        reduce_rows(op, dtype, &view, values[i], rows + (size_t)i * bytes);
        inputs[i] = rows + (size_t)i * bytes;
    }
    const ls_all_reduce_options *sum =
        LS_ALL_REDUCE("reduce", NULL, output, count, dtype, op == LS_MEAN ? LS_SUM : op, .inputs = inputs);
    if (op != LS_MEAN) return reduce_into(strategy, sum);
    int64_t total = 0;
    status = global_extent(strategy, shapes, axis, &total);
    if (!status && total < 1)
        status = ls_fail(LS_INVALID_ARGUMENT, "no replica has elements along axis %d: mean of nothing", axis);
    if (!status) status = reduce_into(strategy, sum);
    if (!status) ls_reduce_divide(dtype, output, count, (int)total);
    return status;
}
