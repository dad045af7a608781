/* What computes: one table of device kinds, devices with memory, and ops that a device builds once and runs often. */
#pragma once
#include <lockstep/lockstep.h>

#include "device/op.h"

struct ls_device;
/* What a thread was before it entered a device. */
struct ls_thread_state {
    unsigned denormals; /* ls_denormals_flush */
    int threads;        /* of the math library */
};
struct ls_device_ops {
    void (*close)(struct ls_device *device);
    /* Called by each thread before it computes on the device: its thread count, denormals flushed to zero. leave gives
     * a borrowed thread back as it was. */
    ls_status (*enter)(struct ls_device *device, struct ls_thread_state *before);
    void (*leave)(struct ls_device *device, const struct ls_thread_state *before);
    /* Zeroed, aligned to 64 bytes. */
    ls_status (*allocate)(struct ls_device *device, size_t size, void **memory);
    void (*release)(struct ls_device *device, void *memory);
    /* Between host memory and device memory; ordered with the ops of this device. */
    ls_status (*copy_in)(struct ls_device *device, void *to, const void *from, size_t size);
    ls_status (*copy_out)(struct ls_device *device, void *to, const void *from, size_t size);
    /* Prepares op for repeated runs: chooses op->run and makes op->handle. UNIMPLEMENTED for a kind it has not. */
    ls_status (*build)(struct ls_device *device, struct ls_op *op);
    void (*discard)(struct ls_device *device, struct ls_op *op); /* what build made */
};
struct ls_device {
    const struct ls_device_ops *ops;
    char name[16]; /* "cpu:0" */
    int threads;
    bool host_memory; /* its memory may be read and written by the host directly */
};

/* One row of the table of kinds. */
struct ls_device_kind {
    const char *name;                          /* "cpu" */
    const char *(*unavailable)(void);          /* NULL: available; else why not, for people */
    int (*count)(void);                        /* how many there are; cpu: as many as asked for */
    void (*describe)(char *text, size_t size); /* for lockstep info: model, instruction set, library */
    ls_status (*open)(int index, int threads, struct ls_device **device);
};
extern const struct ls_device_kind *const ls_device_kinds[]; /* ends with NULL */

#define LS_MAX_LOCAL_DEVICES 64
/* Opens every device of a list: "cpu:0,cpu:1", or a number of CPU devices. INVALID_ARGUMENT naming the bad entry. */
ls_status ls_devices_open(const char *list, int threads, struct ls_device **devices, int *count);
void ls_device_close(struct ls_device *device);
/* What fixes the bits of computing beside the threads: instruction set and library versions, in one line. */
void ls_devices_fingerprint(char *text, size_t size);
