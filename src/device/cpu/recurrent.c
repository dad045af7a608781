/* Recurrent layers: a task is a block of rows, which goes through all positions in one thread, with one product of its
 * own for each. Blocks follow from the number of rows, so threads change no bit. Mirrors the core of keras.layers.LSTM
 * and GRU; what the inputs give to the gates is one product over all positions before. */
#include "device/cpu/recurrent.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clones.h"
#include "base/status.h"
#include "device/cpu/cpu.h"

#define BLOCK 8 /* rows: a batch of 32 is enough for four threads */

struct recurrent {
    const struct ls_op *op;
    int64_t rows, length, units, columns, saved; /* columns: of all gates; saved: floats of a position */
    ls_cpu_cell_fn *cell;
    _Atomic int failed; /* a status */
};
/* Some rows, with scratch memory of their own. zeros: what is before the first position. */
struct recurrent_block {
    int64_t first, rows;
    float *state, *h, *product, *spare, *zeros;
};

static struct recurrent describe_recurrent(const struct ls_op *op) {
    bool back = op->kind == LS_OP_RECURRENT_BACKWARD, gru = op->cell == LS_CELL_GRU;
    const ls_shape *x = &op->tensors[back ? LS_ARG_DX : LS_ARG_X].shape;
    struct recurrent n = {.op = op, .rows = x->dims[0], .length = x->dims[1], .columns = x->dims[2]};
    n.units = op->tensors[LS_ARG_W].shape.dims[0];
    n.saved = ls_cell_saved(op->cell) * n.units;
    if (back)
        n.cell = gru ? ls_cpu_gru_backward : ls_cpu_lstm_backward;
    else
        n.cell = gru ? ls_cpu_gru_forward : ls_cpu_lstm_forward;
    return n;
}

/* state, h and product of BLOCK rows; spare and zeros of one. */
static int64_t block_floats(const struct recurrent *n) {
    return BLOCK * (2 * n->units + n->columns) + n->saved + n->units;
}

static int64_t count_blocks(const struct recurrent *n) {
    return (n->rows + BLOCK - 1) / BLOCK;
}

ls_status ls_cpu_recurrent_build(struct ls_device *device, struct ls_op *op) {
    const struct recurrent n = describe_recurrent(op);
    (void)device;
    op->workspace_size = (size_t)(count_blocks(&n) * block_floats(&n)) * sizeof(float);
    return LS_OK;
}

static struct recurrent_block begin_block(const struct recurrent *n, int64_t index) {
    float *scratch = (float *)n->op->workspace + index * block_floats(n);
    int64_t first = index * BLOCK, left = n->rows - first;
    struct recurrent_block block = {first, left < BLOCK ? left : BLOCK, .state = scratch};
    memset(scratch, 0, (size_t)block_floats(n) * sizeof(*scratch));
    block.h = scratch + BLOCK * n->units;
    block.product = block.h + BLOCK * n->units;
    block.spare = block.product + BLOCK * n->columns;
    block.zeros = block.spare + n->saved;
    return block;
}

/* Of a tensor (rows, length, width). */
static float *position_of(const struct recurrent *n, int place, int64_t row, int64_t t) {
    const struct ls_tensor *tensor = &n->op->tensors[place];
    return (float *)tensor->data + (row * n->length + t) * tensor->shape.dims[2];
}

LS_CLONES static void recurrent_add(float *restrict to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

/* ---- forward ---- */

/* At the first position there is no output before: the product stays 0. */
static ls_status multiply_outputs(const struct recurrent *n, const struct recurrent_block *b, int64_t t) {
    const struct ls_gemm product = {.rows = b->rows,
                                    .columns = n->columns,
                                    .depth = n->units,
                                    .a = b->h,
                                    .b = n->op->tensors[LS_ARG_W].data,
                                    .c = b->product};
    const float *bias = n->op->tensors[LS_ARG_B].data;
    ls_status status = t ? ls_gemm_run(&product) : LS_OK;
    for (int64_t r = 0; bias && !status && r < b->rows; r++)
        recurrent_add(b->product + r * n->columns, bias, n->columns);
    return status;
}

/* To y, and to the next position's r. */
static void store_output(const struct recurrent *n, int64_t row, int64_t t, const float *h) {
    const struct ls_tensor *y = &n->op->tensors[LS_ARG_Y];
    size_t size = (size_t)n->units * sizeof(*h);
    bool last = t + 1 == n->length, before = n->op->tensors[LS_ARG_R].data != NULL;
    if (y->shape.rank == 3)
        memcpy(position_of(n, LS_ARG_Y, row, t), h, size);
    else if (last)
        memcpy((float *)y->data + row * n->units, h, size);
    if (before && !t) memset(position_of(n, LS_ARG_R, row, 0), 0, size);
    if (before && !last) memcpy(position_of(n, LS_ARG_R, row, t + 1), h, size);
}

static ls_status forward_position(const struct recurrent *n, const struct recurrent_block *b, int64_t t) {
    bool saves = n->op->tensors[LS_ARG_SAVED].data != NULL;
    ls_status status = multiply_outputs(n, b, t);
    for (int64_t r = 0; !status && r < b->rows; r++) {
        int64_t row = b->first + r;
        const struct ls_cpu_cell cell = {.x = position_of(n, LS_ARG_X, row, t),
                                         .product = b->product + r * n->columns,
                                         .state = b->state + r * n->units,
                                         .saved = saves ? position_of(n, LS_ARG_SAVED, row, t) : b->spare,
                                         .h = b->h + r * n->units};
        n->cell(&cell, n->units);
        store_output(n, row, t, cell.h);
    }
    return status;
}

/* ---- backward ---- */

/* h = the gradient of the output at t by way of the gates at t + 1; none at the last position. */
static ls_status multiply_gradients(const struct recurrent *n, const struct recurrent_block *b, int64_t t) {
    int gates = n->op->cell == LS_CELL_GRU ? LS_ARG_DR : LS_ARG_DX;
    if (t + 1 == n->length) return LS_OK;
    const struct ls_gemm product = {.transpose_b = true,
                                    .rows = b->rows,
                                    .columns = n->units,
                                    .depth = n->columns,
                                    .a = position_of(n, gates, b->first, t + 1),
                                    .a_pitch = n->length * n->columns,
                                    .b = n->op->tensors[LS_ARG_W].data,
                                    .c = b->h};
    return ls_gemm_run(&product);
}

static void add_gradient(const struct recurrent *n, int64_t row, int64_t t, float *h) {
    const struct ls_tensor *dy = &n->op->tensors[LS_ARG_DY];
    if (dy->shape.rank == 3)
        recurrent_add(h, position_of(n, LS_ARG_DY, row, t), n->units);
    else if (t + 1 == n->length)
        recurrent_add(h, (const float *)dy->data + row * n->units, n->units);
}

static const float *state_before(const struct recurrent *n, const struct recurrent_block *b, int64_t row, int64_t t) {
    if (n->op->cell == LS_CELL_GRU) return position_of(n, LS_ARG_R, row, t);
    return t ? position_of(n, LS_ARG_SAVED, row, t - 1) + ls_cell_gates(n->op->cell) * n->units : b->zeros;
}

static ls_status backward_position(const struct recurrent *n, const struct recurrent_block *b, int64_t t) {
    bool gru = n->op->cell == LS_CELL_GRU;
    ls_status status = multiply_gradients(n, b, t);
    for (int64_t r = 0; !status && r < b->rows; r++) {
        int64_t row = b->first + r;
        const struct ls_cpu_cell cell = {.state = b->state + r * n->units,
                                         .saved = position_of(n, LS_ARG_SAVED, row, t),
                                         .h = b->h + r * n->units,
                                         .before = state_before(n, b, row, t),
                                         .dx = position_of(n, LS_ARG_DX, row, t),
                                         .dr = gru ? position_of(n, LS_ARG_DR, row, t) : NULL};
        add_gradient(n, row, t, cell.h);
        n->cell(&cell, n->units);
    }
    return status;
}

/* ---- tasks ---- */

static void run_blocks(void *context, int64_t begin, int64_t end) {
    struct recurrent *n = context;
    bool back = n->op->kind == LS_OP_RECURRENT_BACKWARD;
    for (int64_t i = begin; i < end; i++) {
        const struct recurrent_block block = begin_block(n, i);
        ls_status status = LS_OK;
        for (int64_t k = 0; !status && k < n->length; k++)
            status = back ? backward_position(n, &block, n->length - 1 - k) : forward_position(n, &block, k);
        if (status) atomic_store(&n->failed, (int)status);
    }
}

/* Another thread's error is told in this one's words. */
ls_status ls_cpu_recurrent_run(const struct ls_op *op) {
    struct recurrent n = describe_recurrent(op);
    ls_team_run_alone(count_blocks(&n), run_blocks, &n);
    ls_status status = (ls_status)atomic_load(&n.failed);
    if (!status) return LS_OK;
    return ls_fail(status, "%s: a matrix product of a position (%lld units) failed", ls_op_name(op->kind),
                   (long long)n.units);
}
