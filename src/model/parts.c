/* Runs of ops that go over the batch a few images at a time. The output of an op is still in the cache when the next op
 * reads it. A tensor that only the run uses needs memory for those few images. The number of images, and with it the
 * order of all sums, follows from shapes alone. A run holds at least one convolution. It ends before an op that needs a
 * sum over the batch which is made in it. */
#include "model/plan.h"

#include "base/shape.h"

#define PART_FLOATS 131072 /* of the largest tensor: several of them fit into a second-level cache */
#define WEIGHTS_USE 8      /* so many floats at least for each one of a kernel, whose gradients are added up */

static bool is_convolution(const struct ls_op *op) {
    return op->kind == LS_OP_CONVOLUTION_FORWARD || op->kind == LS_OP_CONVOLUTION_BACKWARD_DATA ||
           op->kind == LS_OP_CONVOLUTION_BACKWARD_WEIGHTS;
}

/* Of values, which have rows and something in them: a sum of variables has one axis (layer_batch_norm.c). */
static bool adds_values(const struct ls_op *op) {
    return op->kind == LS_OP_ADD && op->tensors[LS_ARG_X].shape.rank > 1;
}

static bool divides(const struct ls_op *op) {
    return is_convolution(op) || op->kind == LS_OP_BATCH_NORM_FORWARD || op->kind == LS_OP_BATCH_NORM_AGAIN ||
           op->kind == LS_OP_BATCH_NORM_BACKWARD || op->kind == LS_OP_BATCH_NORM_BACKWARD_DATA || adds_values(op);
}

/* The tensor is one over the rows of the batch. */
static bool has_rows(const struct ls_op *op, int place) {
    if (!ls_tensor_exists(&op->tensors[place])) return false;
    switch (place) {
    case LS_ARG_X:
    case LS_ARG_Y:
    case LS_ARG_DX:
    case LS_ARG_DY:
    case LS_ARG_R:
    case LS_ARG_DR:
        return true;
    case LS_ARG_W:
        return op->kind == LS_OP_ADD;
    default:
        return false;
    }
}

static int64_t row_floats(const struct ls_tensor *tensor) {
    return ls_shape_count(&tensor->shape) / tensor->shape.dims[0];
}

/* The sum over the batch that the op makes for others in the plan; 0: none. */
static int sum_made(const struct ls_op *op) {
    if (op->kind == LS_OP_BATCH_NORM_FORWARD) return op->tensors[LS_ARG_SAVED].buffer;
    if (op->kind == LS_OP_BATCH_NORM_BACKWARD) return op->tensors[LS_ARG_SHIFTS].buffer;
    return 0;
}

static int sum_needed(const struct ls_op *op) {
    if (op->kind == LS_OP_BATCH_NORM_AGAIN) return op->tensors[LS_ARG_SAVED].buffer;
    if (op->kind == LS_OP_BATCH_NORM_BACKWARD_DATA) return op->tensors[LS_ARG_SHIFTS].buffer;
    return 0;
}

/* Batch normalization forward makes the sums of the whole batch that "again" needs: "again" cannot begin with the first
 * part while later parts have not been added. So the run ends before it, and another run may begin with it. */
static size_t find_end(const struct ls_plan *plan, size_t begin) {
    size_t end = begin, last = begin < plan->turn ? plan->turn : plan->count;
    for (; end < last && divides(&plan->steps[end].op); end++)
        for (size_t i = begin; i < end; i++)
            if (sum_made(&plan->steps[i].op) && sum_made(&plan->steps[i].op) == sum_needed(&plan->steps[end].op))
                return end;
    return end > begin ? end : begin + 1;
}

/* The most rows that divide the batch and keep within the limit; at least 1. */
static int64_t choose_rows(const struct ls_plan *plan, size_t begin, size_t end, int64_t rows) {
    int64_t largest = 1, weights = 0;
    for (size_t i = begin; i < end; i++) {
        const struct ls_op *op = &plan->steps[i].op;
        for (int t = 0; t < LS_OP_TENSORS; t++)
            if (has_rows(op, t) && row_floats(&op->tensors[t]) > largest) largest = row_floats(&op->tensors[t]);
        if (op->kind != LS_OP_CONVOLUTION_BACKWARD_WEIGHTS) continue;
        int64_t count = ls_shape_count(&op->tensors[LS_ARG_DW].shape);
        if (count > weights) weights = count;
    }
    int64_t limit = PART_FLOATS > WEIGHTS_USE * weights ? PART_FLOATS : WEIGHTS_USE * weights, chosen = rows;
    while (chosen > 1 && (rows % chosen || chosen * largest > limit)) chosen--;
    return chosen;
}

/* Nobody outside of the run has the buffer. The plan's outputs are read whole. */
static bool is_own(const struct ls_plan *plan, int buffer, size_t begin, size_t end) {
    if (buffer <= 0 || buffer == plan->outputs.buffer) return false;
    const struct ls_plan_buffer *b = &plan->buffers[buffer - 1];
    return b->first >= begin && b->last < end;
}

static void divide_tensor(struct ls_plan *plan, struct ls_tensor *tensor, size_t begin, size_t end, int64_t rows) {
    size_t floats = (size_t)(rows * row_floats(tensor));
    tensor->shape.dims[0] = rows;
    if (is_own(plan, tensor->buffer, begin, end))
        plan->buffers[tensor->buffer - 1].size = (floats + LS_ARENA_STEP - 1) / LS_ARENA_STEP * LS_ARENA_STEP;
    else
        tensor->stride = floats;
}

/* Parts take turns, so what one op has must be there for all of the run. */
static void keep_buffer(struct ls_plan_buffer *buffer, size_t begin, size_t end) {
    if (buffer->first > begin && buffer->first < end) buffer->first = begin;
    if (buffer->last >= begin && buffer->last < end) buffer->last = end - 1;
}

static void divide_steps(struct ls_plan *plan, size_t begin, size_t end, int64_t rows, int64_t part) {
    for (size_t i = begin; i < end; i++) {
        struct ls_op *op = &plan->steps[i].op;
        op->parts = rows / part;
        plan->steps[i].end = end;
        for (int t = 0; t < LS_OP_TENSORS; t++)
            if (has_rows(op, t)) divide_tensor(plan, &op->tensors[t], begin, end, part);
    }
    for (size_t i = begin; i < end; i++)
        for (int t = 0; t < LS_OP_TENSORS; t++)
            if (plan->steps[i].op.tensors[t].buffer > 0)
                keep_buffer(&plan->buffers[plan->steps[i].op.tensors[t].buffer - 1], begin, end);
}

void ls_parts_divide(struct ls_plan *plan, int64_t rows) {
    for (size_t begin = 0, end; begin < plan->count; begin = end) {
        bool convolution = false;
        end = find_end(plan, begin);
        for (size_t i = begin; i < end; i++) convolution = convolution || is_convolution(&plan->steps[i].op);
        int64_t part = choose_rows(plan, begin, end, rows);
        if (convolution && end - begin > 1 && part < rows) divide_steps(plan, begin, end, rows, part);
    }
}

/* Points the tensors of one run's ops from one part to another. */
static void move_steps(struct ls_plan *plan, size_t begin, size_t end, int64_t from, int64_t to) {
    for (size_t i = begin; i < end; i++) {
        struct ls_op *op = &plan->steps[i].op;
        op->part = to;
        for (int t = 0; t < LS_OP_TENSORS; t++)
            if (op->tensors[t].stride)
                op->tensors[t].data = (float *)op->tensors[t].data + (to - from) * (int64_t)op->tensors[t].stride;
    }
}

ls_status ls_parts_run(struct ls_plan *plan, size_t begin, size_t end) {
    int64_t parts = plan->steps[begin].op.parts, part = 0;
    ls_status status = LS_OK;
    for (;;) {
        for (size_t i = begin; !status && i < end; i++) status = plan->steps[i].op.run(&plan->steps[i].op);
        if (status || part + 1 >= parts) break;
        move_steps(plan, begin, end, part, part + 1);
        part++;
    }
    move_steps(plan, begin, end, part, 0);
    return status;
}
