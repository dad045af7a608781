/* A network: layers with shapes and variables, independent of devices and replicas; and a plan: the flat list of ops
 * that one replica runs for a given number of rows. Parameters, gradients and moments are one contiguous float32 blob
 * each, in plain layout: first the trainable variables in forward order, so that gradients become ready from the tail;
 * then the statistics, which are moved and not trained. Where a variable has its gradient, a statistic has this
 * replica's part in its change: the sum over all replicas is added to it. */
#pragma once
#include <lockstep/lockstep.h>

#include "device/device.h"
#include "model/objective.h"

struct ls_network_variable {
    char name[96]; /* "dense_1/kernel" */
    ls_shape shape;
    size_t offset, count; /* elements in the blob; offsets are multiples of 16 (64 bytes), gaps stay zero */
    ls_initializer initializer;
    int64_t fan_in, fan_out;
    bool trainable;
    float l1, l2;   /* regularisers */
    float momentum; /* of a statistic: what a step keeps of it */
};
struct ls_network;
/* Copies layers; input is the shape of one example. INVALID_ARGUMENT naming the layer and the field. */
ls_status ls_network_new(const ls_layer *layers, size_t count, const ls_shape *input, struct ls_network **network);
void ls_network_free(struct ls_network *network);
size_t ls_network_blob_count(const struct ls_network *network);      /* float32 elements in a blob, gaps included */
size_t ls_network_trainable_count(const struct ls_network *network); /* those of them that come first */
int ls_network_variable_count(const struct ls_network *network);
const struct ls_network_variable *ls_network_variable(const struct ls_network *network, int index);
int ls_network_outputs(const struct ls_network *network); /* width of the last layer: classes */
/* One text that is equal exactly when the networks are: "dense/kernel float32 (784, 128); ..." Freed with ls_free. */
ls_status ls_network_describe(const struct ls_network *network, char **text);
ls_status ls_network_summary(const struct ls_network *network, char **text); /* for people; freed with ls_free */
/* Writes initial values into a host blob: a function of (seed, variable name, element) only. */
void ls_network_initialize(const struct ls_network *network, uint64_t seed, float *blob);

/* Memory that the plans of one replica use in turn: it grows to what the largest one needs. */
struct ls_arena {
    struct ls_device *device; /* borrowed */
    void *memory;
    size_t size; /* bytes */
};
ls_status ls_arena_reserve(struct ls_arena *arena, size_t size); /* what was in it is gone if it grows */
void ls_arena_release(struct ls_arena *arena);

struct ls_plan_config {
    const struct ls_network *network; /* borrowed, as is everything here */
    struct ls_device *device;
    int64_t rows;  /* >= 1 */
    bool training; /* false: forward and loss only; gradients may be NULL */
    struct ls_objective objective;
    float *parameters, *gradients;      /* device blobs */
    const float *features;              /* device (rows, input...) */
    const int32_t *labels;              /* device (rows) */
    const float *loss_scale;            /* read at each run: 1 / global rows */
    const float *gradient_scale;        /* of the loss's gradients, likewise; NULL: loss_scale */
    struct ls_loss_sums *sums;          /* written by each run; metrics beyond the objective's are left alone */
    struct ls_arena *arena;             /* of the same device; NULL: the plan has one of its own */
    const struct ls_exchange *exchange; /* of synchronized layers; NULL: this replica is alone */
    /* of layers that draw random numbers */
    uint64_t seed;
    int replica;                          /* in all of the group */
    const struct ls_optimizer_step *step; /* read at each run; NULL: no layer needs it */
};
struct ls_plan;
ls_status ls_plan_new(const struct ls_plan_config *config, struct ls_plan **plan);
void ls_plan_free(struct ls_plan *plan);
/* Called from the running thread when all gradients from element offset to the end of the blob are final; offsets fall.
 * The first call has the trainable count: forward and loss are done, and with them the statistics' changes, no gradient
 * is; the last call has offset 0. */
typedef void ls_ready_fn(void *context, size_t offset);
/* The last layer's outputs (rows, outputs), of a plan that does not train, after a run; device memory until the next.
 */
const float *ls_plan_outputs(const struct ls_plan *plan);
size_t ls_plan_memory(const struct ls_plan *plan); /* bytes of the arena that it uses */
/* Forward, loss, backward. Gradients are overwritten, not added to. ready may be NULL. */
ls_status ls_plan_run(struct ls_plan *plan, ls_ready_fn *ready, void *context);
/* The same, and behind it what tail runs: ops of the same device, which one by one or captured with the plan's do the
 * same, and in each run of the plan are the same. Where a captured run is repeated tail is not called. */
typedef ls_status ls_plan_tail_fn(void *context);
ls_status ls_plan_run_with(struct ls_plan *plan, ls_plan_tail_fn *tail, void *context);
/* The exchanges of a run, and nothing else: the part of a replica that has no examples in this step. */
ls_status ls_plan_run_idle(const struct ls_plan *plan);
