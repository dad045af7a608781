/* A plan from the inside: steps, and the buffers that their tensors lie in. */
#pragma once
#include "model/layer.h"
#include "model/network.h"

#define LS_NOT_READY   SIZE_MAX
#define LS_ARENA_STEP  16 /* floats: tensors begin on cache lines */
#define LS_ARENA_LIMIT (SIZE_MAX / sizeof(float) / 16)

/* Memory that a plan is given: that of a tensor whose buffer is one of these, less than 0. */
enum ls_plan_given {
    LS_GIVEN_PARAMETERS = 1,
    LS_GIVEN_GRADIENTS,
    LS_GIVEN_FEATURES,
    LS_GIVEN_BYTE_VALUES,
    LS_GIVEN_TARGETS,
    LS_GIVEN_WEIGHTS,
    LS_GIVEN_KEPT, /* of a decoding, as its at */
    LS_GIVEN_AT,
    LS_GIVEN_ENTRY,
    LS_GIVEN_COUNT
};

struct ls_plan_step {
    struct ls_op op;
    size_t ready;   /* after this op: gradients from here on are final; or LS_NOT_READY */
    const char *of; /* the layer's name, for messages; NULL for the loss */
    bool built;
    size_t needs; /* as of ls_plan_await_fn; 0: nothing */
    size_t end;   /* of the run of steps that go over the batch in parts together; 0: this step stands alone */
};

/* Part of the arena, in floats, from the first step that has it to the last. */
struct ls_plan_buffer {
    size_t size, offset, first, last;
    bool used, placed;
};

/* Steps that the device runs as one, up to gradients that somebody waits for. */
struct ls_plan_segment {
    size_t begin, end;
    size_t ready;               /* as of a step */
    struct ls_program *program; /* owns; NULL: not compiled yet */
};

struct ls_plan {
    struct ls_device *device; /* borrowed */
    struct ls_arena own;      /* used if the caller gave none */
    struct ls_arena *arena;
    const void *bound; /* the arena's memory that the tensors point to */
    size_t floats;     /* of all buffers; the ops' workspace lies behind */
    size_t workspace;  /* bytes */
    struct ls_plan_step *steps;
    size_t count, capacity;
    size_t turn; /* steps before it are forward, the others backward; what lives across it is the stash */
    struct ls_tensor outputs, output_gradient; /* float32; a gradient where the plan trains */
    struct ls_tensor entry_gradient;           /* of a stage's entry; absent where nobody needs it */
    struct ls_plan_buffer *buffers;            /* tensor.buffer - 1 */
    const void *given[LS_GIVEN_COUNT];         /* borrowed; -tensor.buffer */
    size_t buffer_count, buffer_capacity;
    /* where the device can compile: the ops as one, from the second run on */
    const float *scales[2];                     /* read by ops; borrowed; NULL if no op reads it */
    float compiled_scales[2], scales_before[2]; /* their values when compiled, and in the last run */
    struct ls_program *program;                 /* owns; NULL: not compiled yet */
    struct ls_plan_segment *segments;           /* [segment_count] own; NULL before a run that is followed */
    size_t segment_count;
    bool uncompiled, told;   /* the device cannot compile it: ops run one by one */
    char refusal[256];       /* why */
    ls_plan_await_fn *await; /* NULL: all variables are there */
    void *await_context;
    bool exchanges; /* an op waits for other replicas: there is no program then */
    bool ran;
};
ls_status ls_plan_new(const struct ls_plan_config *config, struct ls_plan **plan);
void ls_plan_free(struct ls_plan *plan);
/* The last layer's outputs (rows, outputs), device memory, of a plan without a loss: after a run of one that does not
 * train until the next run, else from ls_plan_run_forward to ls_plan_run_backward. */
const float *ls_plan_outputs(const struct ls_plan *plan);
/* Their gradient, of a plan that trains: the loss writes it, or where the plan has none the caller, between the two. */
float *ls_plan_output_gradient(const struct ls_plan *plan);
/* The gradient of a stage's entry, behind ls_plan_run_backward; NULL where nothing before it is trained. */
const float *ls_plan_entry_gradient(const struct ls_plan *plan);
size_t ls_plan_memory(const struct ls_plan *plan); /* bytes of the arena that it uses */
/* Gives each buffer its place, once all steps are there. */
ls_status ls_plan_place(struct ls_plan *plan, int64_t rows);
/* Of a plan whose arena has moved: tensors point into it, and programs are made anew. */
void ls_plan_bind(struct ls_plan *plan);
void ls_plan_drop_programs(struct ls_plan *plan);

/* Runs of ops that go over the batch a few images at a time, so that what one op writes is still in the cache when
 * the next one reads it; what only they see needs memory for those few images. */

/* Finds those runs; lifetimes of the buffers are known, and all tensors over the batch are float32. One run,
 * all its parts. */
void ls_parts_divide(struct ls_plan *plan, int64_t rows);
ls_status ls_parts_run(struct ls_plan *plan, size_t begin, size_t end);

/* Memory of plans. */

ls_status ls_arena_reserve(struct ls_arena *arena, size_t size); /* what was in it is gone if it grows */
void ls_arena_release(struct ls_arena *arena);
/* Gives each used buffer an offset, largest first; *floats is where the last one ends. */
ls_status ls_arena_place(struct ls_plan_buffer *buffers, size_t count, size_t *floats);

/* The costs of a plan before it is made: memory, and bytes that a run moves. */

struct ls_plan_cost {
    size_t arena; /* bytes, without what ops need beside */
    double moved; /* bytes between memory and the device's arithmetic, at least */
};
/* recompute, not LS_RECOMPUTE_AUTO, takes the place of the objective's. */
ls_status ls_plan_cost(const struct ls_plan_config *config, ls_recompute recompute, struct ls_plan_cost *cost);
/* Of one op: each tensor once, but twice what it reads for statistics of the batch before it writes anything. */
double ls_plan_cost_moved(const struct ls_op *op);
