/* A plan from the inside: steps, and the buffers that their tensors lie in. */
#pragma once
#include "model/layer.h"

#define LS_NOT_READY   SIZE_MAX
#define LS_ARENA_STEP  16 /* floats: tensors begin on cache lines */
#define LS_ARENA_LIMIT (SIZE_MAX / sizeof(float) / 16)

struct ls_plan_step {
    struct ls_op op;
    size_t ready;   /* after this op: gradients from here on are final; or LS_NOT_READY */
    const char *of; /* the layer's name, for messages; NULL: the loss */
    bool built;
    size_t end; /* of the run of steps that go over the batch in parts together; 0: this step stands alone */
};

/* Part of the arena, in floats, from the first step that has it to the last. */
struct ls_plan_buffer {
    size_t size, offset, first, last;
    bool used, placed;
};
/* Gives each used buffer an offset, largest first; *floats is where the last one ends. */
ls_status ls_buffers_place(struct ls_plan_buffer *buffers, size_t count, size_t *floats);

struct ls_plan {
    struct ls_device *device; /* borrowed */
    struct ls_arena own;      /* where the user gave none */
    struct ls_arena *arena;
    const void *bound; /* the arena's memory that the tensors point to */
    size_t floats;     /* of all buffers; the ops' workspace lies behind */
    size_t workspace;  /* bytes */
    struct ls_plan_step *steps;
    size_t count, capacity;
    struct ls_plan_buffer *buffers; /* tensor.buffer - 1 */
    size_t buffer_count, buffer_capacity;
    /* where the device has a queue: the ops as one, from the second run on */
    const float *scales[2];                     /* that ops read; borrowed; NULL: none does */
    float captured_scales[2], scales_before[2]; /* what they were at the capture, and in the last run */
    void *graph;                                /* owns; NULL: none */
    bool exchanges;                             /* an op waits for other replicas: there is no graph then */
    bool ran;
};

/* parts.c: finds those runs; lifetimes of the buffers are known, and all tensors over the batch are float32. One run,
 * all its parts. */
void ls_plan_divide(struct ls_plan *plan, int64_t rows);
ls_status ls_plan_run_parts(struct ls_plan *plan, size_t begin, size_t end);

/* build.c: appends all ops of config to an empty plan; data of tensors in buffers is not set. */
ls_status ls_plan_build(const struct ls_plan_config *config, struct ls_plan *plan);
