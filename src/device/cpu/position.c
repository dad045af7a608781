/* A row that is added to each row of the batch, and its gradient: elements are divided among threads, and each one's
 * sum runs over the rows in their order. Mirrors keras_hub.layers.PositionEmbedding. */
#include <string.h>

#include "base/clones.h"
#include "base/shape.h"
#include "device/cpu/cpu.h"

#define GRAIN 16384 /* elements that are worth a thread */

struct positions {
    const float *x, *b;
    float *y;
    int64_t rows, count; /* count: elements of a row */
};

LS_CLONES static void position_add(float *y, const float *x, const float *b, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = x[i] + b[i];
}

static void add_part(void *context, int64_t begin, int64_t end) {
    const struct positions *p = context;
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t at = r * p->count + begin;
        position_add(p->y + at, p->x + at, p->b + begin, end - begin);
    }
}

static void sum_part(void *context, int64_t begin, int64_t end) {
    const struct positions *p = context;
    float *sum = p->y + begin;
    memcpy(sum, p->x + begin, (size_t)(end - begin) * sizeof(*sum));
    for (int64_t r = 1; r < p->rows; r++) position_add(sum, sum, p->x + r * p->count + begin, end - begin);
}

static ls_status run_positions(struct positions p, const ls_shape *shape, ls_team_fn *part) {
    p.rows = shape->dims[0];
    p.count = ls_shape_count(shape) / p.rows;
    ls_team_run(p.count, 1 + GRAIN / p.rows, part, &p);
    return LS_OK;
}

ls_status ls_cpu_position_forward(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X];
    const int32_t *at = op->tensors[LS_ARG_AT].data;
    const float *b = (const float *)op->tensors[LS_ARG_B].data + (at ? *at * x->shape.dims[2] : 0);
    return run_positions((struct positions){x->data, b, op->tensors[LS_ARG_Y].data, 0, 0}, &x->shape, add_part);
}

ls_status ls_cpu_position_backward(const struct ls_op *op) {
    const struct ls_tensor *dy = &op->tensors[LS_ARG_DY];
    return run_positions((struct positions){dy->data, NULL, op->tensors[LS_ARG_DB].data, 0, 0}, &dy->shape, sum_part);
}
