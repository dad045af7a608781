/* The CPU device: host memory, one OpenMP team size a thread, denormals flushed to zero. Several CPU devices in one
 * process stand for several accelerators; they share nothing. */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

#include "base/denormal.h"
#include "base/new.h"

/* oneDNN's OpenMP is libgomp with every compiler of this file, and <omp.h> would bring the compiler's own. */
extern void omp_set_num_threads(int count);
extern int omp_get_max_threads(void);

#define MAX_THREADS 1024

#define KIND(kind, name, check, ...) {__VA_ARGS__},
static const struct {
    ls_op_run_fn *run;
    ls_status (*build)(struct ls_device *device, struct ls_op *op);
    void (*discard)(struct ls_op *op);
} kinds[] = {LS_OP_KINDS(KIND)};

struct cpu_device {
    struct ls_device device;
    struct ls_library library;
};

const struct ls_library *ls_cpu_library(const struct ls_device *device) {
    return &((const struct cpu_device *)device)->library;
}

static void cpu_close(struct ls_device *device) {
    ls_library_close(&((struct cpu_device *)device)->library);
    ls_free(device);
}

static ls_status cpu_enter(struct ls_device *device, struct ls_thread_state *before) {
    *before = (struct ls_thread_state){ls_denormals_flush(), omp_get_max_threads()};
    if (before->threads != device->threads) omp_set_num_threads(device->threads);
    return LS_OK;
}

static void cpu_leave(struct ls_device *device, const struct ls_thread_state *before) {
    if (before->threads != device->threads) omp_set_num_threads(before->threads);
    ls_denormals_restore(before->denormals);
}

static ls_status cpu_allocate(struct ls_device *device, size_t size, void **memory) {
    void *made = ls_memory_untouched(size);
    if (!made)
        return ls_fail(LS_RESOURCE_EXHAUSTED, "%s: no memory for a tensor or blob (%zu bytes)", device->name, size);
    *memory = made;
    return LS_OK;
}

static void cpu_release(struct ls_device *device, void *memory) {
    (void)device;
    ls_free(memory);
}

static ls_status cpu_copy(struct ls_device *device, void *to, const void *from, size_t size) {
    (void)device;
    if (size) memcpy(to, from, size);
    return LS_OK;
}

static ls_status check_types(const struct ls_device *device, const struct ls_op *op) {
    for (int t = 0; t < LS_OP_TENSORS; t++) {
        ls_dtype dtype = op->tensors[t].dtype;
        if (op->tensors[t].data && (dtype == LS_FLOAT16 || dtype == LS_BFLOAT16) && op->kind != LS_OP_CAST)
            return ls_fail(LS_UNIMPLEMENTED, "%s has no op '%s' of %s: values of 16 bits need a GPU", device->name,
                           ls_op_name(op->kind), ls_dtype_name(dtype));
    }
    return LS_OK;
}

static ls_status cpu_build(struct ls_device *device, struct ls_op *op) {
    ls_status status = ls_op_check(op);
    if (!status) status = check_types(device, op);
    if (status) return status;
    if (!kinds[op->kind].run) return ls_fail(LS_UNIMPLEMENTED, "%s has no op '%s'", device->name, ls_op_name(op->kind));
    op->run = kinds[op->kind].run;
    op->handle = NULL;
    op->workspace_size = 0;
    return kinds[op->kind].build ? kinds[op->kind].build(device, op) : LS_OK;
}

static void cpu_discard(struct ls_device *device, struct ls_op *op) {
    (void)device;
    if (kinds[op->kind].discard) kinds[op->kind].discard(op);
    op->run = NULL;
}

static const struct ls_device_ops cpu_ops = {.close = cpu_close,
                                             .enter = cpu_enter,
                                             .leave = cpu_leave,
                                             .allocate = cpu_allocate,
                                             .release = cpu_release,
                                             .copy_in = cpu_copy,
                                             .copy_out = cpu_copy,
                                             .build = cpu_build,
                                             .discard = cpu_discard};

static int cpu_count(void) {
    return LS_MAX_LOCAL_DEVICES;
}

static ls_status cpu_open(int index, int threads, struct ls_device **device) {
    if (threads < 0 || threads > MAX_THREADS)
        return ls_fail(LS_INVALID_ARGUMENT, "cpu:%d: threads_per_replica %d must be from 1 to %d, or 0 for 1", index,
                       threads, MAX_THREADS);
    LS_NEW(struct cpu_device, made, "a device");
    made->device = (struct ls_device){
        .ops = &cpu_ops, .threads = threads ? threads : 1, .host_memory = true, .rounds_factors = true};
    (void)snprintf(made->device.name, sizeof(made->device.name), "cpu:%d", index);
    ls_status status = ls_library_open(&made->library);
    return LS_HAND_OVER(status, device, &made->device, ls_free(made));
}

const struct ls_device_kind ls_cpu_kind = {
    .name = "cpu", .unavailable = NULL, .count = cpu_count, .describe = ls_cpu_describe, .open = cpu_open};
