/* Workers own the moments (train/shards.h). Gradients are added up on all workers, as in mirrored training; they may
 * keep those of their stripes alone (train/kept_gradients.h). Then each worker updates its stripes, and all gather the
 * new variables where the gradients were, or in memory of the plans. A step commits when all are there. Variables and
 * moments before it are kept in memory that plans do not use between two steps: a step that fails puts variables back,
 * and leaves both versions of the moments. The others tell which of them holds. A reduce-scatter takes the place of the
 * all-reduce where nobody has copies of moments: the same bits, and as many bytes as without owners. */
#include "sync/sync.h"

#include <string.h>

#include "base/kept_error.h"
#include "base/new.h"
#include "base/point.h"
#include "collective/collectives.h"
#include "strategy/iterator.h"
#include "train/gathered.h"
#include "train/kept_gradients.h"
#include "train/shards.h"
#include "train/sparse.h"
#include "train/step.h"
#include "train/stored.h"

static float *sums_of(const ls_model *model) {
    return model->built.replicas[0].gradients;
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

/* Without copies a worker needs the sums of its stripe alone: what the gather brings, they need not. */
static ls_status share_sums(ls_model *model, struct ls_reducer_config *config) {
    struct ls_shards *shards = model->built.shards;
    size_t workers = (size_t)model->strategy->runtime->size;
    const struct ls_layout layout = ls_layout_of(&shards->terms, (int)workers);
    ls_kept_gradients_follow(model, config);
    if (!scatters(model)) return LS_OK;
    shards->shares = ls_alloc_array(config->count * workers, sizeof(*shards->shares));
    if (!shards->shares) return ls_fail_memory("shares of sums", config->count * workers * sizeof(*shards->shares));
    for (size_t i = 0; i < config->count * workers; i++) {
        const struct ls_bucket *bucket = &config->buckets[i / workers];
        struct ls_range share = ls_layout_overlap((struct ls_range){bucket->begin, bucket->end},
                                                  ls_layout_range(&layout, 0, (int)(i % workers)));
        shards->shares[i] = share.end - share.begin;
    }
    config->shares = shards->shares;
    return LS_OK;
}

/* ---- a step ---- */

/* Memory for what is before the step, and for a gather: of the plans, where it is large enough. */
static ls_status lend_memory(const ls_model *model) {
    const struct ls_arena *arena = &model->built.replicas[0].arena;
    const struct ls_shards_of here = ls_shards_here(model);
    struct ls_shards *shards = model->built.shards;
    size_t arrays = 1 + (size_t)shards->terms.moments, room = arena->memory ? arena->size : 0;
    size_t size = ls_shards_update_bytes(shards->kept[0]->count, shards->terms.moments);
    bool fits = room && size <= room;
    if (!fits && !shards->own) shards->own = ls_alloc_aligned(size);
    if (!fits && !shards->own) return ls_fail_memory("variables and moments before a step", size);
    for (size_t i = 0; i < shards->stripe_count; i++)
        shards->stripes[i].op.before =
            (fits ? (float *)arena->memory : shards->own) + arrays * shards->stripes[i].held.at;
    const struct ls_gathered_room found = ls_gathered_find(model, &here, fits ? room - size : room);
    shards->gathered.lent = fits ? (float *)arena->memory + size / sizeof(float) : arena->memory;
    shards->gathered.others = sums_of(model) + found.others.begin;
    shards->gathered.fit = found.fit;
    return LS_OK;
}

/* The variables, which only this worker has seen. */
static void put_back(const struct ls_shards_stripe *stripe) {
    size_t size = (stripe->held.range.end - stripe->held.range.begin) * sizeof(float);
    if (stripe->built) memcpy(stripe->op.tensors[LS_ARG_PARAMETERS].data, stripe->op.before, size);
}

/* Of a step that this worker alone has given up. */
static void put_back_moments(const struct ls_shards *shards, const struct ls_shards_stripe *stripe) {
    size_t count = stripe->held.range.end - stripe->held.range.begin;
    for (size_t m = 0; stripe->built && m < (size_t)shards->terms.moments; m++)
        memcpy(stripe->op.tensors[LS_ARG_MOMENT_1 + m].data, stripe->op.before + (1 + m) * count,
               count * sizeof(float));
}

/* The own stripe comes first, for norms are joined with it. */
static ls_status run_updates(const ls_model *model) {
    struct ls_shards *shards = model->built.shards;
    struct ls_device *device = model->built.replicas[0].device;
    ls_status status = LS_OK;
    size_t done = 0;
    if (!shards->stripes->built) status = ls_store_norms_pass(&shards->norms, &model->built.numbers->step);
    for (; done < shards->stripe_count && !status; done += !status)
        if (shards->stripes[done].built) status = ls_table_run_op(device, &shards->stripes[done].op);
    while (status && done-- > 0) {
        put_back(&shards->stripes[done]);
        put_back_moments(shards, &shards->stripes[done]);
    }
    return status;
}

/* A worker that holds all has the new variables already, and whoever lacks them finds all with it. */
static ls_status exchange(ls_model *model) {
    const struct ls_shards *shards = model->built.shards;
    ls_status status = shards->terms.replicas < model->strategy->runtime->size ? ls_gathered_take(model) : LS_OK;
    ls_reached("gather");
    if (status || !ls_step_report_saves(model->bound.extras)) return status;
    return ls_shards_fetch(model, model->built.numbers->step.iteration);
}

/* The first replica has the held ranges already. */
static ls_status commit_variables(const ls_model *model) {
    const struct ls_shards *shards = model->built.shards;
    const float *variables = model->built.replicas[0].parameters;
    bool gathered = shards->terms.replicas < model->strategy->runtime->size;
    ls_status status = ls_stored_add_statistics(model, sums_of(model));
    if (!status && gathered) ls_gathered_put(model);
    for (int i = 1; i < model->strategy->local_count && !status; i++)
        if (!model->built.replicas[i].shares)
            memcpy(model->built.replicas[i].parameters, variables, shards->terms.count * sizeof(float));
    if (gathered && shards->gathered.fit < shards->terms.count && ls_kept_gradients_are(model))
        ls_kept_gradients_give_back(model);
    return status;
}

/* The other workers may have committed the step, or not. */
static ls_status give_up_stripes(struct ls_shards *shards, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    for (size_t i = 0; i < shards->stripe_count; i++) put_back(&shards->stripes[i]);
    ls_status keeping = ls_shards_keep(shards);
    return keeping ? ls_fail_context(keeping, "after '%.200s'", kept.message) : ls_kept_error_raise(&kept);
}

static ls_status run_step(ls_model *model) {
    ls_status status = lend_memory(model);
    if (!status) status = run_updates(model);
    if (status) return status;
    model->built.shards->kept[0]->version[0] = model->built.numbers->step.iteration;
    ls_reached("applied");
    status = exchange(model);
    return status ? give_up_stripes(model->built.shards, status) : commit_variables(model);
}

/* Once a step, by the thread that makes the calls. */
static ls_status update_stripes(ls_model *model) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    struct ls_track *track = model->strategy->replicas[0].track;
    int64_t begun = ls_track_begin(track);
    ls_status status = run_step(model);
    ls_track_end(track, begun, "update", (struct ls_span_facts){.step = model->progress.step.iteration});
    if (!status || runtime->size == 1) return status;
    return ls_sync_give_up(runtime, status);
}

const struct ls_sync_ops ls_sync_sharded = {.asks_in_step = true,
                                            .updates = true,
                                            .check = ls_sparse_check,
                                            .attach = share_sums,
                                            .given = update_stripes,
                                            .commit = ls_sync_commit,
                                            .open_data = ls_iterator_open_pipeline};
