/* Places of rows, and a step: the touched rows are gathered side by side, which is both what the optimizer's op changes
 * and, in a second copy, what a step that is given up goes back to. */
#include "shard/table.h"

#include <string.h>

#include "base/new.h"

ls_status ls_table_new(const struct ls_layout *layout, const struct ls_terms_table *terms, int holder,
                       struct ls_table **table) {
    int moments = layout->terms->moments;
    LS_NEW(struct ls_table, made, "a table");
    *made = (struct ls_table){.rows = terms->rows,
                              .width = (size_t)terms->width,
                              .layout = {NULL, layout->holders, layout->copies},
                              .holder = holder,
                              .moments = moments,
                              .each = ls_layout_rows(layout, terms->rows, 0)};
    size_t size = (size_t)layout->copies * made->each * made->width * sizeof(float);
    bool there = true;
    for (int b = 0; b <= moments; b++) there = (made->blobs[b] = ls_alloc_aligned(size)) && there;
    ls_status status =
        there ? LS_OK
              : ls_fail_memory("rows that a parameter server holds: more servers hold less each", ls_table_bytes(made));
    return LS_HAND_OVER(status, table, made, ls_table_free(made));
}

void ls_table_free(struct ls_table *table) {
    if (!table) return;
    ls_table_keep(table);
    for (int b = 0; b <= LS_MAX_MOMENTS; b++) ls_free(table->blobs[b]);
    ls_free(table);
}

size_t ls_table_place(const struct ls_table *table, int64_t row) {
    const struct ls_layout *layout = &table->layout;
    int copy = ls_layout_before(layout, table->holder, (int)(row % layout->holders));
    return copy < layout->copies ? (size_t)copy * table->each + (size_t)(row / layout->holders) : LS_TABLE_NOWHERE;
}

void ls_table_draw(struct ls_table *table, const struct ls_fill *fill) {
    ls_table_keep(table);
    for (int c = 0; c < table->layout.copies; c++) {
        int owner = ls_layout_before(&table->layout, table->holder, c);
        for (int64_t row = owner; row < table->rows; row += table->layout.holders)
            ls_fill(fill, (uint64_t)row * table->width, table->blobs[0] + ls_table_place(table, row) * table->width,
                    table->width);
    }
    size_t size = (size_t)table->layout.copies * table->each * table->width * sizeof(float);
    for (int b = 1; b <= table->moments; b++) memset(table->blobs[b], 0, size);
}

void ls_table_put(struct ls_table *table, int blob, int64_t row, const float *values) {
    size_t place = ls_table_place(table, row);
    if (place != LS_TABLE_NOWHERE)
        memcpy(table->blobs[blob] + place * table->width, values, table->width * sizeof(*values));
}

size_t ls_table_bytes(const struct ls_table *table) {
    return (size_t)table->layout.copies * table->each * table->width * (1 + (size_t)table->moments) * sizeof(float);
}

/* ---- a step ---- */

void ls_table_keep(struct ls_table *table) {
    ls_free(ls_steal(table->places));
    for (int b = 0; b <= LS_MAX_MOMENTS; b++) ls_free(ls_steal(table->before[b]));
    table->touched = 0;
}

/* Copies the touched rows to their places, or from there to the rows. */
static void move_touched(const struct ls_table *table, float *const *rows, bool back) {
    size_t width = table->width;
    for (int b = 0; b <= table->moments; b++)
        for (size_t i = 0; i < table->touched; i++) {
            float *own = rows[b] + i * width, *place = table->blobs[b] + table->places[i] * width;
            memcpy(back ? place : own, back ? own : place, width * sizeof(float));
        }
}

void ls_table_return(struct ls_table *table) {
    move_touched(table, table->before, true);
    ls_table_keep(table);
}

static ls_status keep_touched(struct ls_table *table, const struct ls_table_update *update) {
    size_t size = update->count * table->width * sizeof(float);
    bool there = (table->places = ls_alloc_array(update->count, sizeof(*table->places)));
    for (int b = 0; b <= table->moments; b++) there = (table->before[b] = ls_alloc_aligned(size)) && there;
    if (!there) {
        ls_table_keep(table);
        return ls_fail_memory("the rows of a step", size * (1 + (size_t)table->moments));
    }
    memcpy(table->places, update->places, update->count * sizeof(*table->places));
    table->touched = update->count;
    move_touched(table, table->before, false);
    return LS_OK;
}

ls_status ls_table_run_op(struct ls_device *device, struct ls_op *op) {
    struct ls_thread_state before;
    ls_status status = device->ops->enter(device, &before);
    if (status) return status;
    status = op->run(op);
    device->ops->leave(device, &before);
    return status;
}

static ls_status update_rows(struct ls_device *device, const struct ls_table_update *update, size_t count,
                             float **now) {
    const ls_shape shape = LS_SHAPE((int64_t)count);
    const struct ls_blob_part part = {.count = count, .decays = update->decays, .rate = update->rate};
    struct ls_op op = {.kind = update->kind, .step = update->step, .variables = &part, .variable_count = 1};
    op.tensors[LS_ARG_GRADIENTS] = (struct ls_tensor){update->gradients, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){now[0], LS_FLOAT32, shape, 0};
    for (int m = 0; m < LS_MAX_MOMENTS && now[1 + m]; m++)
        op.tensors[LS_ARG_MOMENT_1 + m] = (struct ls_tensor){now[1 + m], LS_FLOAT32, shape, 0};
    ls_status status = device->ops->build(device, &op);
    if (status) return status;
    status = ls_table_run_op(device, &op);
    device->ops->discard(device, &op);
    return status;
}

ls_status ls_table_apply(struct ls_table *table, struct ls_device *device, const struct ls_table_update *update) {
    size_t size = update->count * table->width * sizeof(float);
    float *now[1 + LS_MAX_MOMENTS] = {NULL};
    ls_table_keep(table);
    if (!update->count) return LS_OK;
    ls_status status = keep_touched(table, update);
    for (int b = 0; b <= table->moments && !status; b++)
        if (!(now[b] = ls_alloc_aligned(size))) status = ls_fail_memory("the rows of a step", size);
    if (!status) move_touched(table, now, false);
    if (!status) status = update_rows(device, update, update->count * table->width, now);
    if (!status) move_touched(table, now, true);
    for (int b = 0; b <= table->moments; b++) ls_free(now[b]);
    return status;
}
