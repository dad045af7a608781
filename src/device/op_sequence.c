/* Checks of the ops over sequences (rows, positions, channels): attention, positions and recurrent cells. */
#include "device/op_layers.h"

#include "base/status.h"
#include "device/rope.h"

int64_t ls_op_sequence_width(const struct ls_attention *attention, const ls_shape *x) {
    return x->dims[2] / (attention->heads + 2 * attention->kv_heads);
}

static ls_status check_heads(const struct ls_op *op) {
    const struct ls_attention *a = &op->attention;
    const char *name = ls_op_name(op->kind);
    int64_t channels = op->tensors[LS_ARG_X].shape.dims[2], groups = a->heads + 2 * a->kv_heads;
    if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: %lld kv_heads do not divide %lld heads", name, (long long)a->kv_heads,
                       (long long)a->heads);
    if (channels % groups)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: %lld heads and twice %lld kv_heads do not divide %lld channels", name,
                       (long long)a->heads, (long long)a->kv_heads, (long long)channels);
    if (a->rope && channels / groups % 2)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: a head of %lld channels has no pairs for rope", name,
                       (long long)(channels / groups));
    if (a->rope_theta != 0 && !(a->rope && a->rope_theta >= 1 && (double)a->rope_theta <= LS_ROPE_MOST))
        return ls_fail(LS_INVALID_ARGUMENT, "%s: rope_theta %g must be 1 to %g beside rope, or 0", name,
                       (double)a->rope_theta, LS_ROPE_MOST);
    if (a->window < 0 || (a->window && !a->causal))
        return ls_fail(LS_INVALID_ARGUMENT, "%s: window %lld must be 0, or above it where it is causal", name,
                       (long long)a->window);
    return LS_OK;
}

ls_status ls_op_sequence_check_attention(const struct ls_op *op) {
    bool back = op->kind == LS_OP_ATTENTION_BACKWARD;
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 3);
    if (!status) status = check_heads(op);
    if (status) return status;
    ls_shape x = op->tensors[LS_ARG_X].shape;
    int64_t heads = op->attention.heads, width = ls_op_sequence_width(&op->attention, &x);
    ls_shape y = LS_SHAPE(x.dims[0], x.dims[1], heads * width), saved = LS_SHAPE(x.dims[0], heads, x.dims[1]);
    ls_dtype type = ls_op_type(op, LS_ARG_X);
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, x}, {LS_ARG_Y, "y", type, false, y},
                              {LS_ARG_SAVED, "saved", LS_FLOAT32, !back, saved}, {LS_ARG_DY, "dy", type, !back, y},
                              {LS_ARG_DX, "dx", type, !back, x});
}

/* kept has the positions of which x has some. */
ls_status ls_op_sequence_check_decode(const struct ls_op *op) {
    const struct ls_attention *a = &op->attention;
    ls_status status = ls_op_check_leading(op, LS_ARG_X, "x", 3);
    if (!status) status = ls_op_check_leading(op, LS_ARG_KEPT, "kept", 5);
    if (!status) status = check_heads(op);
    if (!status && !a->causal)
        status = ls_fail(LS_INVALID_ARGUMENT, "attention decode: it is causal, for it has no positions behind x");
    if (status) return status;
    ls_shape x = op->tensors[LS_ARG_X].shape;
    int64_t width = ls_op_sequence_width(a, &x), length = op->tensors[LS_ARG_KEPT].shape.dims[3];
    if (x.dims[1] > length)
        return ls_fail(LS_INVALID_ARGUMENT, "attention decode: x has %lld positions, and kept has %lld",
                       (long long)x.dims[1], (long long)length);
    ls_dtype type = ls_op_type(op, LS_ARG_X);
    return LS_CHECK_ARGUMENTS(
        op, {LS_ARG_X, "x", type, false, x}, {LS_ARG_AT, "at", LS_INT32, false, LS_SHAPE(1)},
        {LS_ARG_KEPT, "kept", LS_FLOAT32, false, LS_SHAPE(x.dims[0], 2, a->kv_heads, length, width)},
        {LS_ARG_Y, "y", type, false, LS_SHAPE(x.dims[0], x.dims[1], a->heads * width)});
}

ls_status ls_op_sequence_check_position(const struct ls_op *op) {
    bool back = op->kind == LS_OP_POSITION_BACKWARD;
    int rows = back ? LS_ARG_DY : LS_ARG_X;
    ls_status status = ls_op_check_leading(op, rows, back ? "dy" : "x", 3);
    if (status) return status;
    ls_shape x = op->tensors[rows].shape, table = LS_SHAPE(x.dims[1], x.dims[2]);
    ls_dtype type = ls_op_type(op, rows);
    if (back)
        return LS_CHECK_ARGUMENTS(op, {LS_ARG_DY, "dy", type, false, x}, {LS_ARG_DB, "db", LS_FLOAT32, false, table});
    const struct ls_tensor *b = &op->tensors[LS_ARG_B];
    bool some = op->tensors[LS_ARG_AT].data && b->shape.rank == 2 && b->shape.dims[0] > table.dims[0];
    if (some) table.dims[0] = b->shape.dims[0];
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_X, "x", type, false, x}, {LS_ARG_B, "b", LS_FLOAT32, false, table},
                              {LS_ARG_AT, "at", LS_INT32, true, LS_SHAPE(1)}, {LS_ARG_Y, "y", type, false, x});
}

ls_status ls_op_sequence_check_recurrent(const struct ls_op *op) {
    bool back = op->kind == LS_OP_RECURRENT_BACKWARD, gru = op->cell == LS_CELL_GRU;
    int gates = back ? LS_ARG_DX : LS_ARG_X, out = back ? LS_ARG_DY : LS_ARG_Y;
    if ((unsigned)op->cell > LS_CELL_GRU)
        return ls_fail(LS_INVALID_ARGUMENT, "%s: cell %d is no ls_cell", ls_op_name(op->kind), (int)op->cell);
    ls_status status = ls_op_check_leading(op, gates, back ? "dx" : "x", 3);
    if (!status) status = ls_op_check_leading(op, LS_ARG_W, "w", 2);
    if (status) return status;
    const ls_shape x = op->tensors[gates].shape;
    int64_t rows = x.dims[0], units = op->tensors[LS_ARG_W].shape.dims[0], columns = ls_cell_gates(op->cell) * units;
    const ls_shape all = LS_SHAPE(rows, x.dims[1], units), in = LS_SHAPE(rows, x.dims[1], columns);
    const ls_shape saved = LS_SHAPE(rows, x.dims[1], ls_cell_saved(op->cell) * units);
    const ls_shape y = op->tensors[out].shape.rank == 2 ? LS_SHAPE(rows, units) : all;
    ls_dtype type = ls_op_type(op, gates);
    return LS_CHECK_ARGUMENTS(op, {LS_ARG_W, "w", type, false, LS_SHAPE(units, columns)},
                              {LS_ARG_X, "x", type, back, in}, {LS_ARG_B, "b", LS_FLOAT32, true, LS_SHAPE(columns)},
                              {LS_ARG_Y, "y", type, back, y}, {LS_ARG_SAVED, "saved", LS_FLOAT32, !back, saved},
                              {LS_ARG_R, "r", type, !back || !gru, all}, {LS_ARG_DY, "dy", type, !back, y},
                              {LS_ARG_DX, "dx", type, !back, in}, {LS_ARG_DR, "dr", type, !back || !gru, in});
}
