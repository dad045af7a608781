/* An op whose arguments are a test's own memory, on any device: where that has no host memory, each argument has a copy
 * there, as far from a multiple of 64 bytes as the test's. */
#pragma once
#include <string.h>

#include "base/memory.h"
#include "device/device.h"
#include "harness.h"

struct mirror {
    struct ls_device *device;
    const struct ls_op *source; /* the test's */
    struct ls_op op;            /* the device's */
    char *memory[LS_OP_TENSORS];
    size_t sizes[LS_OP_TENSORS]; /* bytes; 0: absent, or as an earlier one */
    void *workspace;
};

static inline struct ls_program *compile_op(struct ls_device *device, const struct ls_op *op) {
    struct ls_program *program = NULL;
    assert_ok(device->ops->compile(device, &op, 1, &program));
    return program;
}

static inline size_t tensor_size(const struct ls_tensor *tensor) {
    size_t size = ls_dtype_size(tensor->dtype);
    for (int i = 0; i < tensor->shape.rank; i++) size *= (size_t)tensor->shape.dims[i];
    return size;
}

static inline void *new_far(struct ls_device *device, size_t size) {
    void *memory = NULL;
    assert_ok(device->ops->allocate(device, size, &memory));
    return memory;
}

static inline void *new_host(struct ls_device *device, const void *source, size_t size) {
    void *memory = NULL;
    if (!source) return NULL;
    assert_ok(ls_device_allocate_host(device, size, &memory));
    return memory;
}

static inline void mirror_tensors(struct mirror *mirror) {
    for (int i = 0; i < LS_OP_TENSORS; i++) {
        struct ls_tensor *tensor = &mirror->op.tensors[i];
        size_t beside = (uintptr_t)tensor->data % 64;
        int same = 0;
        if (!tensor->data) continue;
        while (mirror->source->tensors[same].data != tensor->data) same++;
        if (same == i) {
            mirror->sizes[i] = tensor_size(tensor);
            mirror->memory[i] = new_far(mirror->device, mirror->sizes[i] + beside);
            tensor->data = mirror->memory[i] + beside;
        } else {
            ck_assert_uint_le(tensor_size(tensor), mirror->sizes[same]);
            tensor->data = mirror->op.tensors[same].data;
        }
    }
}

/* Of the op that takes one: another's y tells nothing of it. */
static inline size_t report_size(const struct ls_op *op) {
    bool reports = op->kind == LS_OP_REPORT && op->report;
    return reports ? (size_t)op->tensors[LS_ARG_Y].shape.dims[0] * sizeof(float) : 0;
}

static inline void mirror_numbers(struct mirror *mirror) {
    const struct ls_op *source = mirror->source;
    mirror->op.sums = new_host(mirror->device, source->sums, sizeof(*source->sums));
    mirror->op.value = new_host(mirror->device, source->value, sizeof(*source->value));
    mirror->op.step = new_host(mirror->device, source->step, sizeof(*source->step));
    mirror->op.gathered = new_host(mirror->device, source->gathered, sizeof(*source->gathered));
    mirror->op.report = new_host(mirror->device, source->report, report_size(source));
}

static inline void mirror_free(struct mirror *mirror) {
    struct ls_device *device = mirror->device;
    if (mirror->workspace) device->ops->release(device, mirror->workspace);
    for (int i = 0; i < LS_OP_TENSORS; i++)
        if (mirror->memory[i]) device->ops->release(device, mirror->memory[i]);
    if (device->host_memory) return;
    assert_ok(ls_device_synchronize(device));
    void *numbers[] = {mirror->op.sums, mirror->op.value, (void *)(uintptr_t)mirror->op.step,
                       (void *)(uintptr_t)mirror->op.gathered, (void *)(uintptr_t)mirror->op.report};
    for (int i = 0; i < 5; i++)
        if (numbers[i]) ls_device_release_host(device, numbers[i]);
}

/* The workspace is full of NaN: nothing may be expected of it. */
static inline void mirror_workspace(struct mirror *mirror) {
    size_t size = mirror->op.workspace_size;
    mirror->workspace = mirror->op.workspace = new_far(mirror->device, size);
    void *junk = ls_alloc(size);
    ck_assert_ptr_nonnull(junk);
    memset(junk, 0xFF, size);
    assert_ok(mirror->device->ops->copy_in(mirror->device, mirror->workspace, junk, size));
    ls_free(junk);
}

/* source and what it points to stay the test's. */
static inline ls_status mirror_build(struct mirror *mirror, struct ls_device *device, const struct ls_op *source) {
    *mirror = (struct mirror){.device = device, .source = source, .op = *source};
    if (!device->host_memory) mirror_tensors(mirror), mirror_numbers(mirror);
    ls_status status = device->ops->build(device, &mirror->op);
    if (status)
        mirror_free(mirror);
    else
        mirror_workspace(mirror);
    return status;
}

/* Between the test's memory and the device's, one way or the other. */
static inline void mirror_copy(struct mirror *mirror, bool in) {
    struct ls_device *device = mirror->device;
    for (int i = 0; i < LS_OP_TENSORS; i++) {
        void *own = mirror->op.tensors[i].data, *test = mirror->source->tensors[i].data;
        if (!mirror->sizes[i]) continue;
        ls_status status = in ? device->ops->copy_in(device, own, test, mirror->sizes[i])
                              : device->ops->copy_out(device, test, own, mirror->sizes[i]);
        assert_ok(status);
    }
}

/* Brings the device what the test has now, ... */
static inline void mirror_enter(struct mirror *mirror) {
    const struct ls_op *source = mirror->source;
    struct ls_op *op = &mirror->op;
    mirror_copy(mirror, true);
    if (op->sums) *op->sums = *source->sums;
    if (op->value) *op->value = *source->value;
    if (op->step) *(struct ls_optimizer_step *)(uintptr_t)op->step = *source->step;
    if (op->gathered) *(struct ls_loss_sums *)(uintptr_t)op->gathered = *source->gathered;
    if (op->report) memcpy((void *)(uintptr_t)op->report, source->report, report_size(source));
}

/* ... and back what the queued ops make of it. */
static inline ls_status mirror_leave(struct mirror *mirror) {
    const struct ls_op *source = mirror->source, *op = &mirror->op;
    ls_status status = ls_device_synchronize(mirror->device);
    if (status) return status;
    mirror_copy(mirror, false);
    if (op->sums) *source->sums = *op->sums;
    if (op->value) *source->value = *op->value;
    return LS_OK;
}

static inline ls_status mirror_run(struct mirror *mirror) {
    struct ls_op *op = &mirror->op;
    if (mirror->device->host_memory) return op->run(op);
    mirror_enter(mirror);
    ls_status status = op->run(op);
    return status ? status : mirror_leave(mirror);
}

static inline void mirror_discard(struct mirror *mirror) {
    mirror->device->ops->discard(mirror->device, &mirror->op);
    mirror_free(mirror);
}
