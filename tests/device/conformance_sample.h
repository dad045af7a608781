/* Samples of ops for the test of conformance: an op with random tensors of its own. */
#pragma once
#include "base/shape.h"
#include "device/op_fixture.h"

/* An op with memory of its own. stored: those of its tensors that are in the op's type. */
struct sample {
    struct ls_op op;
    bool stored[LS_OP_TENSORS];
    int variant;
    bool large;
    float scale, told[LS_REPORT_OTHERS + 1];
    struct ls_loss_sums sums;
    double value;
    struct ls_optimizer_step step;
    struct ls_blob_part part;
};

static inline struct ls_device *open_cpu(void) {
    struct ls_device *device = NULL;
    int count = 0;
    assert_ok(ls_devices_open("cpu:0", 1, &device, &count));
    assert_ok(device->ops->enter(device, &(struct ls_thread_state){0}));
    return device;
}

static inline int64_t sized(const struct sample *s, int64_t small, int64_t large) {
    return s->large ? large : small;
}

/* Float32, random. */
static inline float *give(struct sample *s, int place, bool stored, ls_shape shape) {
    struct pair pair = make_random((uint64_t)place + 1, ls_shape_count(&shape));
    s->op.tensors[place] = tensor(&pair, shape);
    s->stored[place] = stored;
    ls_free(pair.oracle);
    return pair.device;
}

static inline float *give_positive(struct sample *s, int place, ls_shape shape) {
    float *values = give(s, place, false, shape);
    for (int64_t i = 0; i < ls_shape_count(&shape); i++) values[i] = fabsf(values[i]) + 0.5F;
    return values;
}

static inline void give_labels(struct sample *s, int place, int64_t rows, int64_t classes) {
    int32_t *labels = ls_alloc_aligned((size_t)rows * sizeof(int32_t));
    ck_assert_ptr_nonnull(labels);
    for (int64_t r = 0; r < rows; r++) labels[r] = (int32_t)(ls_random_bits(7, 2, (uint64_t)r) % (uint64_t)classes);
    s->op.tensors[place] = (struct ls_tensor){labels, LS_INT32, LS_SHAPE(rows)};
}

/* The place of a decode's first position: 0, the last one, or one between. */
static inline void give_place(struct sample *s, int64_t last) {
    int32_t *at = ls_alloc_aligned(sizeof(*at));
    ck_assert_ptr_nonnull(at);
    *at = (int32_t)(s->variant % 3 ? last / (s->variant % 3) : 0);
    s->op.tensors[LS_ARG_AT] = (struct ls_tensor){at, LS_INT32, LS_SHAPE(1)};
}
