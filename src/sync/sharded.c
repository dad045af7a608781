/* Workers own the moments (train/shards.h). Gradients are added up on all workers, as in mirrored training. Then each
 * worker updates its stripes, in memory that the plans do not use between two steps, and all gather the new variables
 * where the gradients were. A step commits when all are there: until then the variables are those before it, and so are
 * the moments, of which a failed step leaves both versions. The others tell which of them holds. Where nobody has
 * copies of moments, a reduce-scatter takes the place of the all-reduce: the same bits, and as many bytes as without
 * owners. */
#include "sync/sync.h"

#include <string.h>

#include "base/kept_error.h"
#include "base/new.h"
#include "base/point.h"
#include "collective/collectives.h"
#include "strategy/iterator.h"
#include "train/shards.h"
#include "train/sparse.h"
#include "train/step.h"
#include "train/stored.h"

/* A step's arrays, each of as many elements as the worker holds: the variables and their gradients, and the moments
 * before the step. */
struct updating {
    ls_model *model;
    struct ls_shards *shards;
    struct ls_holding *holding;
    size_t stride; /* floats from one array to the next */
    float *variables, *gradients, *before[LS_MAX_MOMENTS];
};

static float *sums_of(const struct updating *updating) {
    return updating->model->built.replicas[0].gradients;
}

/* ---- sums ---- */

/* A reduce-scatter has a leaf a rank, adds along the all-reduce's tree, and knows of links or of one host's memory. */
static bool scatters(const ls_model *model) {
    const ls_strategy *strategy = model->strategy;
    const struct ls_runtime *runtime = strategy->runtime;
    bool alike = ls_group_is_one_host(runtime->group), apart = true;
    for (int i = 0; i < runtime->size; i++) apart = apart && ls_group_host(runtime->group, i) == i;
    return runtime->size > 1 && strategy->total_count == runtime->size && (alike || apart) &&
           strategy->options.shard_copies == 1 && strategy->options.communication == LS_AUTO &&
           !strategy->options.compression;
}

static size_t overlap(struct ls_range a, struct ls_range b) {
    size_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
    return begin < end ? end - begin : 0;
}

/* Without copies a worker needs the sums of its stripe alone: what the gather brings, they need not. */
static ls_status share_sums(ls_model *model, struct ls_reducer_config *config) {
    struct ls_shards *shards = model->built.shards;
    size_t workers = (size_t)model->strategy->runtime->size;
    const struct ls_layout layout = ls_layout_of(&shards->terms, (int)workers);
    if (!scatters(model)) return LS_OK;
    shards->shares = ls_alloc_array(config->count * workers, sizeof(*shards->shares));
    if (!shards->shares) return ls_fail_memory("shares of sums", config->count * workers * sizeof(*shards->shares));
    for (size_t i = 0; i < config->count * workers; i++) {
        const struct ls_bucket *bucket = &config->buckets[i / workers];
        shards->shares[i] =
            overlap((struct ls_range){bucket->begin, bucket->end}, ls_layout_range(&layout, 0, (int)(i % workers)));
    }
    config->shares = shards->shares;
    return LS_OK;
}

/* ---- a step ---- */

/* Of the plans, where it is large enough. */
static ls_status find_memory(struct updating *updating, size_t size, float **memory) {
    const struct ls_arena *arena = &updating->model->built.replicas[0].arena;
    struct ls_shards *shards = updating->shards;
    *memory = arena->memory;
    if (arena->memory && arena->size >= size) return LS_OK;
    if (!shards->own && !(shards->own = ls_alloc_aligned(size))) return ls_fail_memory("an update of moments", size);
    *memory = shards->own;
    return LS_OK;
}

static ls_status build_update(struct updating *updating) {
    const ls_model *model = updating->model;
    struct ls_device *device = model->built.replicas[0].device;
    struct ls_shards *shards = updating->shards;
    struct ls_holding *holding = updating->holding;
    const ls_shape shape = LS_SHAPE((int64_t)holding->count);
    if (shards->built && shards->arrays == updating->variables) return ls_op_check(&shards->op);
    if (shards->built) device->ops->discard(device, &shards->op);
    shards->built = false;
    struct ls_op op = {.kind = (enum ls_op_kind)shards->terms.kind,
                       .step = &model->built.numbers->step,
                       .variables = holding->parts,
                       .variable_count = holding->part_count,
                       .norms = &shards->norms.norms};
    op.tensors[LS_ARG_GRADIENTS] = (struct ls_tensor){updating->gradients, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){updating->variables, LS_FLOAT32, shape, 0};
    for (int m = 0; m < shards->terms.moments; m++)
        op.tensors[LS_ARG_MOMENT_1 + m] = (struct ls_tensor){holding->blobs[0][1 + m], LS_FLOAT32, shape, 0};
    shards->op = op;
    ls_status status = device->ops->build(device, &shards->op);
    shards->built = !status;
    shards->arrays = updating->variables;
    return status;
}

static ls_status prepare(struct updating *updating) {
    size_t line = LS_ALIGNMENT / sizeof(float);
    int moments = updating->shards->terms.moments;
    float *memory = NULL;
    if (!updating->holding->count) return LS_OK;
    updating->stride = (updating->holding->count + line - 1) / line * line;
    ls_status status = find_memory(updating, ls_shards_update_bytes(updating->holding->count, moments), &memory);
    if (status) return status;
    updating->variables = memory;
    updating->gradients = memory + updating->stride;
    for (int m = 0; m < moments; m++) updating->before[m] = memory + (2 + (size_t)m) * updating->stride;
    return build_update(updating);
}

/* Between the ranges that are held lie gaps, which the op updates too. */
static void clear(const struct updating *updating, size_t begin, size_t end) {
    memset(updating->variables + begin, 0, (end - begin) * sizeof(float));
    memset(updating->gradients + begin, 0, (end - begin) * sizeof(float));
}

static void take_arrays(const struct updating *updating) {
    const struct ls_holding *holding = updating->holding;
    const float *variables = updating->model->built.replicas[0].parameters;
    size_t done = 0;
    for (size_t i = 0; i < holding->held_count; i++) {
        const struct ls_held *held = &holding->held[i];
        size_t count = held->range.end - held->range.begin;
        if (!count) continue;
        clear(updating, done, held->at);
        memcpy(updating->variables + held->at, variables + held->range.begin, count * sizeof(float));
        memcpy(updating->gradients + held->at, sums_of(updating) + held->range.begin, count * sizeof(float));
        done = held->at + count;
    }
    for (int m = 0; m < updating->shards->terms.moments; m++)
        memcpy(updating->before[m], holding->blobs[0][1 + m], holding->count * sizeof(float));
}

/* An op that fails may have changed moments. */
static ls_status run_update(const struct updating *updating) {
    const struct ls_shards *shards = updating->shards;
    struct ls_holding *holding = updating->holding;
    const struct ls_optimizer_step *step = &updating->model->built.numbers->step;
    if (!holding->count) return ls_store_norms_pass(&shards->norms, step);
    take_arrays(updating);
    ls_status status = ls_table_run_op(updating->model->built.replicas[0].device, &updating->shards->op);
    for (int m = 0; status && m < shards->terms.moments; m++)
        memcpy(holding->blobs[0][1 + m], updating->before[m], holding->count * sizeof(float));
    return status;
}

/* The new variables take the place of the gradients. */
static ls_status gather(const struct updating *updating) {
    const struct ls_runtime *runtime = updating->model->strategy->runtime;
    const struct ls_layout layout = ls_layout_of(&updating->shards->terms, runtime->size);
    const struct ls_held *own = updating->holding->held;
    float *sums = sums_of(updating);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, counts, (size_t)runtime->size, "a gather of variables");
    for (int i = 0; i < runtime->size; i++) {
        struct ls_range range = ls_layout_range(&layout, 0, i);
        counts[i] = range.end - range.begin;
    }
    if (counts[runtime->rank])
        memcpy(sums + own->range.begin, updating->variables + own->at, counts[runtime->rank] * sizeof(float));
    return ls_group_all_gather(runtime->group,
                               LS_ALL_GATHER("variables", sums + own->range.begin, sums, counts, LS_FLOAT32));
}

/* A checkpoint of the step is due, or somebody has asked for one in it. All workers find the same. */
static bool is_fetched(const ls_model *model) {
    const float *extras = model->bound.extras;
    bool asked = extras[LS_EXTRA_SAVE] > 0 || extras[LS_EXTRA_STOP] > 0;
    return extras[LS_EXTRA_KEEPS] > 1 || (extras[LS_EXTRA_KEEPS] > 0 && asked);
}

static ls_status exchange(const struct updating *updating) {
    ls_model *model = updating->model;
    ls_status status = gather(updating);
    ls_reached("gather");
    return status || !is_fetched(model) ? status : ls_shards_fetch(model, model->built.numbers->step.iteration);
}

static ls_status commit_variables(const struct updating *updating) {
    const ls_model *model = updating->model;
    size_t size = updating->shards->terms.count * sizeof(float);
    ls_status status = ls_stored_add_statistics(model, sums_of(updating));
    for (int i = 0; i < model->strategy->local_count && !status; i++)
        if (!model->built.replicas[i].shares) memcpy(model->built.replicas[i].parameters, sums_of(updating), size);
    return status;
}

/* The other workers may have committed the step, or not. */
static ls_status keep_versions(const struct updating *updating, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    int64_t step = updating->holding->version[0];
    ls_status keeping = ls_holding_keep_moments(updating->holding, updating->shards->terms.moments,
                                                (float *const *)updating->before, step - 1);
    return keeping ? ls_fail_context(keeping, "after '%.200s'", kept.message) : ls_kept_error_raise(&kept);
}

static ls_status run_step(struct updating *updating) {
    ls_status status = prepare(updating);
    if (!status) status = run_update(updating);
    if (status) return status;
    updating->holding->version[0] = updating->model->built.numbers->step.iteration;
    ls_reached("applied");
    status = exchange(updating);
    if (status) return keep_versions(updating, status);
    return commit_variables(updating);
}

/* Once a step, by the thread that makes the calls. Other workers hear the cause of a failure. */
static ls_status update_stripes(ls_model *model) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    struct ls_track *track = model->strategy->replicas[0].track;
    struct updating updating = {.model = model, .shards = model->built.shards, .holding = model->built.shards->kept[0]};
    int64_t begun = ls_track_begin(track);
    ls_status status = run_step(&updating);
    ls_track_end(track, begun, "update", (struct ls_span_facts){.step = model->progress.step.iteration});
    if (!status || runtime->size == 1) return status;
    struct ls_kept_error kept = ls_kept_error_of(status);
    ls_runtime_give_up(runtime, status, kept.message);
    return ls_kept_error_raise(&kept);
}

const struct ls_sync_ops ls_sync_sharded = {.asks_in_step = true,
                                            .updates = true,
                                            .check = ls_sparse_check,
                                            .attach = share_sums,
                                            .given = update_stripes,
                                            .commit = ls_sync_commit,
                                            .open_data = ls_iterator_open_pipeline};
