/* A device that has 16-bit types where there is no GPU: each op is the CPU's, on float32 copies that are rounded when
 * it is done. It notes the first ops that it is asked for. */
#pragma once
#include "device/op_private.h"
#include "base/half.h"
#include "model/model_fixture.h"

#define ROUNDING_OPS 256
struct rounding {
    struct ls_device device;
    struct ls_device *cpu; /* owns */
    struct ls_op built[ROUNDING_OPS];
    int count;
};

/* An op's handle: the CPU's op, and the copies of its tensors of 16 bits. */
struct rounded_op {
    struct ls_op inner;
    float *copies[LS_OP_TENSORS]; /* NULL for a float32 tensor */
    bool owned[LS_OP_TENSORS];    /* else it is an earlier tensor's, which has the same place */
    struct ls_device *cpu;
};

static inline bool is_16_bit(const struct ls_tensor *tensor) {
    return tensor->data && (tensor->dtype == LS_FLOAT16 || tensor->dtype == LS_BFLOAT16);
}

static inline void widen(const struct ls_tensor *from, float *to) {
    const uint16_t *bits = from->data;
    for (int64_t i = 0; i < ls_shape_count(&from->shape); i++)
        to[i] = from->dtype == LS_FLOAT16 ? ls_half_to_float(bits[i]) : ls_half_bfloat16_to_float(bits[i]);
}

static inline void narrow(const float *from, const struct ls_tensor *to) {
    uint16_t *bits = to->data;
    for (int64_t i = 0; i < ls_shape_count(&to->shape); i++)
        bits[i] = to->dtype == LS_FLOAT16 ? ls_half_from_float(from[i]) : ls_half_bfloat16_from_float(from[i]);
}

static inline ls_status rounding_cast(const struct ls_op *op) {
    const struct ls_tensor *x = &op->tensors[LS_ARG_X], *y = &op->tensors[LS_ARG_Y];
    if (is_16_bit(y) && !is_16_bit(x))
        narrow(x->data, y);
    else if (is_16_bit(x) && !is_16_bit(y))
        widen(x, y->data);
    else
        ck_abort_msg("a cast from %s to %s", ls_dtype_name(x->dtype), ls_dtype_name(y->dtype));
    return LS_OK;
}

static inline ls_status rounding_run(const struct ls_op *op) {
    struct rounded_op *rounded = op->handle;
    for (int t = 0; t < LS_OP_TENSORS; t++) {
        if (rounded->owned[t]) widen(&op->tensors[t], rounded->copies[t]);
        rounded->inner.tensors[t].data = rounded->copies[t] ? rounded->copies[t] : op->tensors[t].data;
    }
    rounded->inner.workspace = op->workspace;
    ls_status status = rounded->inner.run(&rounded->inner);
    for (int t = 0; t < LS_OP_TENSORS; t++)
        if (rounded->owned[t]) narrow(rounded->copies[t], &op->tensors[t]);
    return status;
}

static inline void copy_tensor(const struct ls_op *op, struct rounded_op *rounded, int t) {
    const struct ls_tensor *tensor = &op->tensors[t];
    if (!is_16_bit(tensor)) return;
    for (int other = 0; other < t; other++)
        if (rounded->copies[other] && op->tensors[other].data == tensor->data)
            rounded->copies[t] = rounded->copies[other];
    rounded->owned[t] = !rounded->copies[t];
    if (rounded->owned[t]) rounded->copies[t] = new_floats(ls_shape_count(&tensor->shape));
    rounded->inner.tensors[t].dtype = LS_FLOAT32;
    rounded->inner.tensors[t].data = rounded->copies[t];
}

static inline ls_status rounding_build(struct ls_device *device, struct ls_op *op) {
    struct rounding *rounding = (struct rounding *)device;
    ls_status status = ls_op_check(op);
    if (status) return status;
    if (rounding->count < ROUNDING_OPS) rounding->built[rounding->count++] = *op;
    op->run = rounding_cast;
    op->handle = NULL;
    if (op->kind == LS_OP_CAST) return LS_OK;
    struct rounded_op *rounded = ls_alloc(sizeof(*rounded));
    ck_assert_ptr_nonnull(rounded);
    *rounded = (struct rounded_op){.inner = *op, .cpu = rounding->cpu};
    for (int t = 0; t < LS_OP_TENSORS; t++) copy_tensor(op, rounded, t);
    assert_ok(rounding->cpu->ops->build(rounding->cpu, &rounded->inner));
    op->workspace_size = rounded->inner.workspace_size;
    op->run = rounding_run;
    op->handle = rounded;
    return LS_OK;
}

static inline void rounding_discard(struct ls_device *device, struct ls_op *op) {
    struct rounded_op *rounded = op->handle;
    (void)device;
    if (!rounded) return;
    rounded->cpu->ops->discard(rounded->cpu, &rounded->inner);
    for (int t = 0; t < LS_OP_TENSORS; t++)
        if (rounded->owned[t]) ls_free(rounded->copies[t]);
    ls_free(rounded);
}

static inline ls_status rounding_allocate(struct ls_device *device, size_t size, void **memory) {
    struct ls_device *cpu = ((struct rounding *)device)->cpu;
    return cpu->ops->allocate(cpu, size, memory);
}

static inline void rounding_release(struct ls_device *device, void *memory) {
    struct ls_device *cpu = ((struct rounding *)device)->cpu;
    cpu->ops->release(cpu, memory);
}

static inline ls_status rounding_copy(struct ls_device *device, void *to, const void *from, size_t size) {
    struct ls_device *cpu = ((struct rounding *)device)->cpu;
    return cpu->ops->copy_in(cpu, to, from, size);
}

static inline ls_status rounding_enter(struct ls_device *device, struct ls_thread_state *before) {
    struct ls_device *cpu = ((struct rounding *)device)->cpu;
    return cpu->ops->enter(cpu, before);
}

static inline void rounding_leave(struct ls_device *device, const struct ls_thread_state *before) {
    struct ls_device *cpu = ((struct rounding *)device)->cpu;
    cpu->ops->leave(cpu, before);
}

static inline void rounding_close(struct ls_device *device) {
    ls_device_close(((struct rounding *)device)->cpu);
}

/* Takes cpu. host_memory: false, so that images are not divided into parts, as on a GPU. */
static inline void rounding_open(struct ls_device *cpu, bool host_memory, struct rounding *rounding) {
    static const struct ls_device_ops ops = {.enter = rounding_enter,
                                             .leave = rounding_leave,
                                             .copy_in = rounding_copy,
                                             .copy_out = rounding_copy,
                                             .allocate = rounding_allocate,
                                             .release = rounding_release,
                                             .build = rounding_build,
                                             .discard = rounding_discard,
                                             .close = rounding_close};
    *rounding = (struct rounding){.device = {.ops = &ops, .host_memory = host_memory, .threads = 1}, .cpu = cpu};
    memcpy(rounding->device.name, cpu->name, sizeof(cpu->name));
}
