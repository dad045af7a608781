/* The rows of a table that one server holds: its own, and copies of those of the servers before it. */
#pragma once
#include "device/device.h"
#include "shard/layout.h"

#define LS_TABLE_NOWHERE SIZE_MAX

struct ls_table {
    int64_t rows;
    size_t width;
    struct ls_layout layout; /* without terms */
    int holder, moments;
    size_t each;                      /* places of an owner's rows */
    float *blobs[1 + LS_MAX_MOMENTS]; /* [copies][each][width] */
    /* rows that the newest step has changed, as they were before it */
    size_t touched, *places;
    float *before[1 + LS_MAX_MOMENTS]; /* [touched][width] */
};
/* The rows are zero. */
ls_status ls_table_new(const struct ls_layout *layout, const struct ls_terms_table *terms, int holder,
                       struct ls_table **table);
void ls_table_free(struct ls_table *table);
/* Of a row; LS_TABLE_NOWHERE: it is not here. */
size_t ls_table_place(const struct ls_table *table, int64_t row);
/* The rows as they are before the first step: the same for any number of servers. */
void ls_table_draw(struct ls_table *table, const struct ls_fill *fill);
/* Takes a row of a blob, if it is held. */
void ls_table_put(struct ls_table *table, int blob, int64_t row, const float *values);
/* Gradients of rows, each once. */
struct ls_table_update {
    const size_t *places; /* [count] */
    float *gradients;     /* [count][width] which it may change */
    size_t count;
    enum ls_op_kind kind;
    const struct ls_optimizer_step *step;
    bool decays;
    float rate; /* these two as of struct ls_blob_part */
};
/* The optimizer on those rows alone, with the arithmetic of the dense one. Keeps what they were. */
ls_status ls_table_apply(struct ls_table *table, struct ls_device *device, const struct ls_table_update *update);
/* Runs an op with the floating-point mode of a device, so that the bits are a replica's. */
ls_status ls_table_run_op(struct ls_device *device, struct ls_op *op);
/* Forgets what was before the newest step, or goes back to it. */
void ls_table_keep(struct ls_table *table);
void ls_table_return(struct ls_table *table);
size_t ls_table_bytes(const struct ls_table *table);
