/* Sums, products, scaling and dropout, element by element. y may be x. */
#include <stddef.h>

#include "base/clones.h"
#include "base/shape.h"
#include "device/cpu/cpu.h"
#include "device/dropout.h"

#define GRAIN 16384 /* elements that are worth a thread */

LS_CLONES static void elements_add(float *y, const float *a, const float *b, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

LS_CLONES static void elements_multiply(float *y, const float *a, const float *b, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = a[i] * b[i];
}

LS_CLONES static void elements_scale(float *y, const float *x, float factor, float offset, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = x[i] * factor + offset;
}

LS_CLONES static void elements_merge(float *restrict y, const float *restrict x, float factor, float scale,
                                     int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = (y[i] + x[i] * factor) * scale;
}

/* The elements that stay are divided by 1 - rate (inverted dropout, as in Keras), so evaluation needs no factor. A
 * block of Philox4x32 (Salmon et al. 2011) serves four elements; element i has word i mod 4 of block i / 4, wherever
 * the thread's part begins. Backward draws the same words again in place of a mask in memory. */
static void drop_out(const struct ls_op *op, int64_t begin, int64_t end) {
    const float *x = op->tensors[LS_ARG_X].data;
    float *y = op->tensors[LS_ARG_Y].data, factor = 1 / (1 - op->alpha);
    uint64_t seed = ls_dropout_seed(&op->random, op->step->iteration, op->step->pass);
    uint32_t words[4], limit = ls_dropout_limit(op->alpha);
    for (int64_t i = begin; i < end; i++) {
        if (i == begin || i % 4 == 0) ls_philox_words(seed, op->random.stream, (uint64_t)i / 4, words);
        y[i] = words[i % 4] >= limit ? x[i] * factor : 0;
    }
}

static void change_part(void *context, int64_t begin, int64_t end) {
    const struct ls_op *op = context;
    const float *x = (const float *)op->tensors[LS_ARG_X].data + begin, *w = op->tensors[LS_ARG_W].data;
    float *y = (float *)op->tensors[LS_ARG_Y].data + begin;
    if (op->kind == LS_OP_ADD)
        elements_add(y, x, w + begin, end - begin);
    else if (op->kind == LS_OP_MULTIPLY)
        elements_multiply(y, x, w + begin, end - begin);
    else if (op->kind == LS_OP_SCALE)
        elements_scale(y, x, op->alpha, op->beta, end - begin);
    else if (op->kind == LS_OP_MERGE)
        elements_merge(y, x, op->alpha, *op->scale, end - begin);
    else
        drop_out(op, begin, end);
}

ls_status ls_cpu_elements(const struct ls_op *op) {
    ls_team_run(ls_shape_count(&op->tensors[LS_ARG_X].shape), GRAIN, change_part, (void *)op);
    return LS_OK;
}
