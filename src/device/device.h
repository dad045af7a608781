/* The device layer: one table of device kinds, devices with memory, and ops that a device builds once and runs often.
 */
#pragma once
#include <lockstep/lockstep.h>

#include "device/op.h"

struct ls_device;
/* The floating-point mode and number of threads that a thread had before it entered a device. */
struct ls_thread_state {
    unsigned denormals; /* ls_denormals_flush */
    int threads;        /* of the math library */
};
/* Ops that a device does as one, as often as wished. */
struct ls_program {
    ls_status (*run)(struct ls_program *program); /* queues them */
    void (*drop)(struct ls_program *program);     /* also while they are queued */
};
/* A device without host memory computes behind the calling threads: ops and copies are queued, and done in the order of
 * the calls. The pointers of an op beside its tensors (scale, sums, value, step, report) must then lead to memory of
 * allocate_host; numbers in it are read when the op is called, unless its comment says when it runs. */
struct ls_device_ops {
    void (*close)(struct ls_device *device);
    /* Called by each thread before it computes on the device: its thread count, denormals flushed to zero. leave gives
     * a borrowed thread back as it was. */
    ls_status (*enter)(struct ls_device *device, struct ls_thread_state *before);
    void (*leave)(struct ls_device *device, const struct ls_thread_state *before);
    /* Zeroed, aligned to 64 bytes. */
    ls_status (*allocate)(struct ls_device *device, size_t size, void **memory);
    void (*release)(struct ls_device *device, void *memory);
    /* Between host memory and device memory, behind all that was queued; copy_out has waited for it. from may be used
     * again after copy_in. */
    ls_status (*copy_in)(struct ls_device *device, void *to, const void *from, size_t size);
    ls_status (*copy_out)(struct ls_device *device, void *to, const void *from, size_t size);
    /* Prepares op for repeated runs: chooses op->run and makes op->handle. UNIMPLEMENTED for a kind it has not. */
    ls_status (*build)(struct ls_device *device, struct ls_op *op);
    void (*discard)(struct ls_device *device, struct ls_op *op); /* what build made */
    /* Makes one program of built ops, in their order, with what they are told now; none is done yet. NULL where a
     * device runs ops one by one alone. */
    ls_status (*compile)(struct ls_device *device, const struct ls_op *const *ops, size_t count,
                         struct ls_program **program);
    /* NULL where the device has host memory: */
    const struct ls_device_queue_ops *queue;
};

/* Functions of a device that computes behind the calling threads. Marks are small numbers of the caller's choice, below
 * LS_DEVICE_MARKS. Each names the last copy that was begun with it. */
#define LS_DEVICE_MARKS  256
#define LS_DEVICE_STAMPS 1024
struct ls_device_queue_ops {
    /* Until all that was queued is done; the first error of any of it, naming the op where that is known. */
    ls_status (*synchronize)(struct ls_device *device);
    /* The same of the ops that were queued, and of what they have settled: other copies beside them may go on. */
    ls_status (*wait)(struct ls_device *device);
    /* Host memory that the device reads and writes too, zeroed; copies from and to it do not hold the calling thread.
     */
    ls_status (*allocate_host)(struct ls_device *device, size_t size, void **memory);
    void (*release_host)(struct ls_device *device, void *memory);
    /* The most bytes of allocate that this process has had at once. */
    ls_status (*peak)(struct ls_device *device, size_t *bytes);
    /* Bytes that allocate could give now. */
    ls_status (*available)(struct ls_device *device, size_t *bytes);
    /* Makes other host memory, such as ls_group_share's, as good as that for copies; undone before it is released. */
    ls_status (*pin)(struct ls_device *device, void *memory, size_t size);
    void (*unpin)(struct ls_device *device, void *memory);
    /* Beside the ops: begins a copy to host memory of what the ops queued so far have written there (of nothing: the
     * mark is those ops'), ... */
    ls_status (*send)(struct ls_device *device, int mark, void *host, const void *from, size_t size);
    /* ... tells whether it is done, from any thread, without waiting, ... */
    ls_status (*sent)(struct ls_device *device, int mark, bool *done);
    /* ... and back, from any thread, behind what was received before. host is read until it is done. */
    ls_status (*receive)(struct ls_device *device, void *to, const void *host, size_t size);
    /* Received too, behind what was received before: a copy from the memory of peer, another device of the same kind,
     * as it is when peer's mark is done; of nothing, it waits for the mark only. peer may be device itself; it must not
     * release the memory before device is through. ... */
    ls_status (*fetch)(struct ls_device *device, void *to, const struct ls_device *peer, int mark, const void *from,
                       size_t size);
    /* ... And to[i] = a[i] + b[i], in float32 with denormals, as the host adds; to may be a or b. */
    ls_status (*add)(struct ls_device *device, float *to, const float *a, const float *b, size_t count);
    /* As send, but from any thread, and of what has been received so far. */
    ls_status (*forward)(struct ls_device *device, int mark, void *host, const void *from, size_t size);
    /* Ops that are queued from now on see what was received. */
    ls_status (*settle)(struct ls_device *device);
    /* NULL where the device has no clock. Notes its time when the ops queued so far are done, under a number below
     * LS_DEVICE_STAMPS; and tells the nanoseconds between two of them, when they are done. */
    ls_status (*stamp)(struct ls_device *device, int number);
    ls_status (*elapsed)(struct ls_device *device, int from, int to, int64_t *nanoseconds);
};
struct ls_device {
    const struct ls_device_ops *ops;
    char name[16]; /* "cpu:0" */
    int threads;
    bool host_memory;    /* its memory may be read and written by the host directly */
    bool rounds_factors; /* with mixed_bfloat16 the factors of products are rounded, and all values stay float32 */
    bool left;           /* a group that was left behind may run on it: nothing may wait for all that runs there */
};

/* One row of the table of kinds. */
struct ls_device_kind {
    const char *name;                          /* "cpu" */
    const char *(*unavailable)(void);          /* returns NULL if available, otherwise the reason, for people */
    int (*count)(void);                        /* how many there are; cpu: as many as asked for */
    void (*describe)(char *text, size_t size); /* for lockstep info: model, instruction set, library */
    ls_status (*open)(int index, int threads, struct ls_device **device);
};
extern const struct ls_device_kind *const ls_device_kinds[]; /* ends with NULL */

#define LS_MAX_LOCAL_DEVICES 64
/* Opens every device of a list: "cpu:0,gpu:1", a number of CPU devices, "cpu" for one, "gpu" for all GPUs, or "auto":
 * all GPUs, or one CPU where there are none. INVALID_ARGUMENT naming the bad entry. */
ls_status ls_devices_open(const char *list, int threads, struct ls_device **devices, int *count);
void ls_device_close(struct ls_device *device);
/* Nothing to wait for where the device has host memory. */
ls_status ls_device_synchronize(struct ls_device *device);
ls_status ls_device_wait(struct ls_device *device); /* for the ops alone */
/* The same on the way out of an error, which stays this thread's: what was queued is done, or has failed too. */
void ls_device_drain(struct ls_device *device);
/* Zeroed memory of the device for so many float32. */
ls_status ls_device_allocate_floats(struct ls_device *device, size_t count, float **floats);
/* Zeroed host memory for what ops of the device take by pointer. */
ls_status ls_device_allocate_host(struct ls_device *device, size_t size, void **memory);
void ls_device_release_host(struct ls_device *device, void *memory);
/* Writes one line with all that fixes the bits of computing on these devices beside the threads: instruction set, GPU
 * and library versions. */
void ls_devices_fingerprint(struct ls_device *const *devices, int count, char *text, size_t size);
