/* From positions to examples. The order of an epoch is its passes over the dataset, one after the other, each shuffled
 * with a stream of its own; division.c says which rows of it a replica gets. Only the passes that the present step of
 * this worker touches are held in memory: a seek within them is free, a new pass costs one permutation. A seek changes
 * the pipeline; between seeks any number of threads may read. Mirrors tf.data's shuffle, repeat, batch and
 * experimental_distribute_dataset. */
#include "data/pipeline.h"

#include "base/dtype.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "data/division.h"

/* One pass over the dataset in its shuffled order. */
struct pass {
    int64_t number; /* which one, counted over all epochs; -1: none yet */
    int64_t *order; /* owns */
};

struct ls_pipeline {
    const ls_dataset *dataset; /* borrows */
    struct ls_division_plan plan;
    int first_replica, local_replicas;
    size_t elements; /* of one example */
    uint64_t stream; /* of pass 0 */
    int64_t epoch, step, steps;
    struct pass *passes; /* owns; pass n stands at n modulo num_passes; NULL when nothing is shuffled */
    int64_t num_passes;
};

static ls_status check_replicas(const struct ls_pipeline_config *config) {
    int end;
    if (config->num_replicas < 1 || config->local_replicas < 1 || config->first_replica < 0 ||
        __builtin_add_overflow(config->first_replica, config->local_replicas, &end) || end > config->num_replicas)
        return ls_fail(LS_INVALID_ARGUMENT, "worker %d: %d replicas from %d on are not among 0 to %d", config->worker,
                       config->local_replicas, config->first_replica, config->num_replicas - 1);
    if (config->num_workers < 1 || config->worker < 0 || config->worker >= config->num_workers)
        return ls_fail(LS_INVALID_ARGUMENT, "worker %d is not among %d workers", config->worker, config->num_workers);
    return LS_OK;
}

/* TensorFlow's rule knows only workers of equal size. */
static ls_status check_tensorflow(const struct ls_pipeline_config *config) {
    if (config->dataset->options.division != LS_DIVIDE_TENSORFLOW) return LS_OK;
    int each = config->num_replicas / config->num_workers;
    if (config->num_replicas % config->num_workers == 0 && config->local_replicas == each &&
        config->first_replica == config->worker * each)
        return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "division TENSORFLOW needs as many replicas on every worker: worker %d has %d (from %d) of %d on %d "
                   "workers; use LAYOUT_INVARIANT, or give every worker the same number of devices",
                   config->worker, config->local_replicas, config->first_replica, config->num_replicas,
                   config->num_workers);
}

static ls_status check_portions(const struct ls_pipeline_config *config) {
    const ls_dataset_options *options = &config->dataset->options;
    if (!config->portions) return LS_OK;
    if (options->division == LS_DIVIDE_TENSORFLOW)
        return ls_fail(LS_INVALID_ARGUMENT, "division TENSORFLOW knows no scaled batches: use LAYOUT_INVARIANT");
    if (options->batch_size % config->portions == 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "batch_size %lld is no multiple of the %d replicas at the start, so that it can not be scaled",
                   (long long)options->batch_size, config->portions);
}

static struct ls_division_plan make_plan(const struct ls_pipeline_config *config) {
    const ls_dataset_options *options = &config->dataset->options;
    int64_t total = config->dataset->count * options->repeat;
    if (options->drop_remainder) total -= total % options->batch_size;
    return (struct ls_division_plan){.total = total,
                                     .batch = options->batch_size / (config->portions ? config->portions : 1),
                                     .stride = config->taken,
                                     .num_replicas = config->num_replicas,
                                     .num_workers = config->num_workers,
                                     .rule = options->division,
                                     .shard = options->auto_shard};
}

/* The passes that one step of one worker can touch: its rows lie within one batch's length. */
static ls_status make_passes(struct ls_pipeline *pipeline) {
    const ls_dataset *dataset = pipeline->dataset;
    if (dataset->options.shuffle == LS_SHUFFLE_NEVER) return LS_OK;
    const struct ls_division_plan *plan = &pipeline->plan;
    int64_t rows = plan->stride ? plan->stride * plan->batch : plan->batch;
    int64_t longest = rows < plan->total ? rows : plan->total;
    int64_t count = (longest - 1) / dataset->count + 2;
    if (count > dataset->options.repeat) count = dataset->options.repeat;
    pipeline->passes = ls_alloc_array((size_t)count, sizeof(*pipeline->passes));
    if (!pipeline->passes) return ls_fail_memory("the order of the examples", (size_t)count * sizeof(struct pass));
    for (int64_t i = 0; i < count; i++) {
        struct pass *pass = &pipeline->passes[pipeline->num_passes++];
        pass->number = -1;
        pass->order = ls_alloc_array((size_t)dataset->count, sizeof(*pass->order));
        if (!pass->order) return ls_fail_memory("the order of the examples", (size_t)dataset->count * sizeof(int64_t));
    }
    return LS_OK;
}

static void free_pipeline(struct ls_pipeline **pipeline) {
    ls_pipeline_free(*pipeline);
}

ls_status ls_pipeline_new(const struct ls_pipeline_config *config, struct ls_pipeline **pipeline) {
    ls_status status = check_replicas(config);
    if (!status) status = check_tensorflow(config);
    if (!status) status = check_portions(config);
    if (status) return status;
    struct ls_division_plan plan = make_plan(config);
    if (plan.total < 1)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "batch_size %lld with drop_remainder leaves no batch: an epoch has %lld examples",
                       (long long)plan.batch, (long long)(config->dataset->count * config->dataset->options.repeat));
    LS_CLEANUP(free_pipeline) struct ls_pipeline *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a pipeline", sizeof(*made));
    made->dataset = config->dataset;
    made->plan = plan;
    made->first_replica = config->first_replica;
    made->local_replicas = config->local_replicas;
    made->elements = (size_t)ls_shape_count(&config->dataset->source->shape);
    made->stream = ls_stream_id("data/shuffle");
    made->steps = ls_division_steps(&plan);
    status = make_passes(made);
    if (!status) status = ls_pipeline_seek(made, 0, 0);
    if (!status) *pipeline = ls_steal(made);
    return status;
}

void ls_pipeline_free(struct ls_pipeline *pipeline) {
    if (!pipeline) return;
    for (int64_t i = 0; i < pipeline->num_passes; i++) ls_free(pipeline->passes[i].order);
    ls_free(pipeline->passes);
    ls_free(pipeline);
}

int64_t ls_pipeline_steps(const struct ls_pipeline *pipeline) {
    return pipeline->steps;
}

int64_t ls_pipeline_max_rows(const struct ls_pipeline *pipeline) {
    return ls_division_max_rows(&pipeline->plan);
}

static struct ls_row_range share(const struct ls_pipeline *pipeline, int local_replica) {
    return ls_division_share(&pipeline->plan, pipeline->step, pipeline->first_replica + local_replica);
}

/* The number over all epochs of the pass that a row of the present epoch lies in. With SHUFFLE_ONCE all are epoch 0's.
 */
static int64_t pass_number(const struct ls_pipeline *pipeline, int64_t row) {
    const ls_dataset_options *options = &pipeline->dataset->options;
    int64_t epoch = options->shuffle == LS_SHUFFLE_ONCE ? 0 : pipeline->epoch;
    return epoch * options->repeat + row / pipeline->dataset->count;
}

static struct pass *pass_at(const struct ls_pipeline *pipeline, int64_t number) {
    return &pipeline->passes[number % pipeline->num_passes];
}

/* Puts the passes in order that rows belong to. */
static void shuffle_passes(struct ls_pipeline *pipeline, struct ls_row_range rows) {
    if (!rows.count || !pipeline->passes) return;
    int64_t last = pass_number(pipeline, rows.first + rows.count - 1);
    for (int64_t number = pass_number(pipeline, rows.first); number <= last; number++) {
        struct pass *pass = pass_at(pipeline, number);
        if (pass->number == number) continue;
        pass->number = number;
        ls_random_permutation(pipeline->dataset->options.seed, pipeline->stream + (uint64_t)number,
                              pipeline->dataset->count, pass->order);
    }
}

ls_status ls_pipeline_seek(struct ls_pipeline *pipeline, int64_t epoch, int64_t step) {
    if (epoch < 0 || epoch > INT64_MAX / pipeline->dataset->options.repeat - 1)
        return ls_fail(LS_OUT_OF_RANGE, "there is no epoch %lld", (long long)epoch);
    if (step < 0 || step >= pipeline->steps)
        return ls_fail(LS_OUT_OF_RANGE, "step %lld is past the end: an epoch has %lld steps", (long long)step,
                       (long long)pipeline->steps);
    pipeline->epoch = epoch;
    pipeline->step = step;
    for (int i = 0; i < pipeline->local_replicas; i++) shuffle_passes(pipeline, share(pipeline, i));
    return LS_OK;
}

int64_t ls_pipeline_global_rows(const struct ls_pipeline *pipeline) {
    return ls_division_global_rows(&pipeline->plan, pipeline->step);
}

int64_t ls_pipeline_taken(const struct ls_pipeline *pipeline) {
    const struct ls_division_plan *plan = &pipeline->plan;
    return plan->stride ? (ls_pipeline_global_rows(pipeline) + plan->batch - 1) / plan->batch : 1;
}

int64_t ls_pipeline_rows(const struct ls_pipeline *pipeline, int local_replica) {
    return share(pipeline, local_replica).count;
}

static int64_t example_at(const struct ls_pipeline *pipeline, int64_t row) {
    int64_t in_pass = row % pipeline->dataset->count;
    return pipeline->passes ? pass_at(pipeline, pass_number(pipeline, row))->order[in_pass] : in_pass;
}

ls_status ls_pipeline_read(const struct ls_pipeline *pipeline, int local_replica, float *features, int32_t *labels) {
    const struct ls_source *source = pipeline->dataset->source;
    struct ls_row_range rows = share(pipeline, local_replica);
    for (int64_t i = 0; i < rows.count; i++) {
        ls_status status = source->ops->read(source, example_at(pipeline, rows.first + i),
                                             features + (size_t)i * pipeline->elements, labels + i);
        if (status) return status;
    }
    return LS_OK;
}
