/* A stripe's update is one op, in place; norms are joined with the own stripe's. */
#include "train/shards.h"

#include <string.h>

#include "base/new.h"
#include "base/record_frame.h"
#include "base/point.h"
#include "collective/collectives.h"
#include "train/succession.h"

static struct ls_terms_model describe(const ls_model *model, struct ls_range *whole) {
    const struct ls_model_built *built = &model->built;
    const ls_optimizer *rule = &model->progress.step.rule;
    *whole = (struct ls_range){0, ls_network_trainable_count(built->network)};
    return (struct ls_terms_model){.model = model->number,
                                   .count = whole->end,
                                   .kind = (int32_t)ls_optimizer_op(rule),
                                   .moments = ls_optimizer_moments(rule),
                                   .replicas = model->strategy->options.shard_copies,
                                   .buckets = whole,
                                   .bucket_count = 1,
                                   .parts = built->parts,
                                   .part_count = built->part_count};
}

static ls_status make_shards(ls_model *model) {
    if (!model->built.shards) {
        LS_NEW(struct ls_shards, made, "a worker's part of the moments");
        model->built.shards = made;
    }
    model->built.shards->terms = describe(model, &model->built.shards->whole);
    return LS_OK;
}

bool ls_shards_are(const ls_model *model) {
    return model->sync->updates && !model->sync->stages;
}

bool ls_shards_lack(const ls_model *model) {
    return ls_shards_are(model) && ls_parts_are_new(model->built.state, model->built.state_count);
}

/* ---- the stripes ---- */

/* Those of copies find what the own one's join has brought. */
static ls_status join(void *context, const double *chunks, size_t count, int kinds, double *squares, double *total) {
    const struct ls_shards_stripe *stripe = context;
    (void)count;
    ls_status status = stripe->owned ? ls_store_norms_join(stripe->all, chunks, kinds) : LS_OK;
    if (!status) ls_store_norms_find(stripe->all, kinds, stripe->variables, stripe->part_count, squares, total);
    return status;
}

static struct ls_op describe_update(const ls_model *model, const struct ls_shards_stripe *stripe) {
    const struct ls_model_replica *first = &model->built.replicas[0];
    const struct ls_shards *shards = model->built.shards;
    struct ls_range range = stripe->held.range;
    const ls_shape shape = LS_SHAPE((int64_t)(range.end - range.begin));
    struct ls_op op = {.kind = (enum ls_op_kind)shards->terms.kind,
                       .step = &model->built.numbers->step,
                       .variables = stripe->parts,
                       .variable_count = stripe->part_count,
                       .norms = &stripe->norms};
    op.tensors[LS_ARG_GRADIENTS] = (struct ls_tensor){first->gradients + range.begin, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){first->parameters + range.begin, LS_FLOAT32, shape, 0};
    for (int m = 0; m < shards->terms.moments; m++)
        op.tensors[LS_ARG_MOMENT_1 + m] =
            (struct ls_tensor){shards->kept[0]->blobs[0][1 + m] + stripe->held.at, LS_FLOAT32, shape, 0};
    return op;
}

/* Pieces of variables are in the order of the ranges. */
static ls_status build_stripe(const ls_model *model, size_t number, size_t *pieces) {
    struct ls_shards *shards = model->built.shards;
    struct ls_shards_stripe *stripe = &shards->stripes[number];
    struct ls_device *device = model->built.replicas[0].device;
    const struct ls_holding *holding = shards->kept[0];
    stripe->held = holding->held[number];
    size_t end = stripe->held.at + stripe->held.range.end - stripe->held.range.begin;
    stripe->parts = holding->parts + *pieces;
    stripe->variables = holding->variables + *pieces;
    stripe->norms = (struct ls_norms){join, stripe};
    stripe->all = &shards->norms;
    stripe->owned = !number;
    for (; *pieces < holding->part_count && holding->parts[*pieces].offset < end; (*pieces)++) stripe->part_count++;
    if (stripe->held.range.begin == stripe->held.range.end) return LS_OK;
    for (size_t p = 0; p < stripe->part_count; p++) stripe->parts[p].offset -= stripe->held.at;
    stripe->op = describe_update(model, stripe);
    ls_status status = device->ops->build(device, &stripe->op);
    stripe->built = !status;
    return status;
}

/* An own range begins at a chunk, so that chunks of norms are those of the whole. */
static ls_status build_stripes(ls_model *model) {
    struct ls_shards *shards = model->built.shards;
    size_t pieces = 0;
    shards->stripe_count = shards->kept[0]->held_count;
    shards->stripes = ls_alloc_array(shards->stripe_count, sizeof(*shards->stripes));
    if (!shards->stripes) return ls_fail_memory("stripes", shards->stripe_count * sizeof(*shards->stripes));
    ls_status status = LS_OK;
    for (size_t i = 0; i < shards->stripe_count && !status; i++) status = build_stripe(model, i, &pieces);
    return status;
}

static void discard_stripes(const ls_model *model, struct ls_shards *shards) {
    for (size_t i = 0; i < shards->stripe_count; i++) {
        struct ls_shards_stripe *stripe = &shards->stripes[i];
        struct ls_device *device = model->built.replicas[0].device;
        if (stripe->built) device->ops->discard(device, &stripe->op);
        for (size_t p = 0; stripe->built && p < stripe->part_count; p++) stripe->parts[p].offset += stripe->held.at;
    }
    ls_free(ls_steal(shards->stripes));
    shards->stripe_count = 0;
}

ls_status ls_shards_keep(struct ls_shards *shards) {
    struct ls_holding *holding = shards->kept[0];
    ls_status status = ls_holding_keep_moments(holding, shards->terms.moments, holding->version[0] - 1);
    for (size_t i = 0; i < shards->stripe_count && !status; i++) {
        const struct ls_shards_stripe *stripe = &shards->stripes[i];
        size_t count = stripe->held.range.end - stripe->held.range.begin;
        for (size_t m = 1; m <= (size_t)shards->terms.moments && stripe->built; m++)
            memcpy(holding->blobs[1][m] + stripe->held.at, stripe->op.before + m * count, count * sizeof(float));
    }
    return status;
}

ls_status ls_shards_attach(ls_model *model) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    if (!ls_shards_are(model)) return LS_OK;
    ls_status status = make_shards(model);
    if (status) return status;
    struct ls_shards *shards = model->built.shards;
    status = ls_succession_run(model);
    if (!status) status = ls_store_norms_new(runtime->group, 0, &shards->terms, shards->kept[0], &shards->norms);
    if (!status) status = build_stripes(model);
    if (!status) ls_parts_settle(model->built.state, model->built.state_count, model->progress.keeps);
    return status;
}

void ls_shards_detach(ls_model *model) {
    struct ls_shards *shards = model->built.shards;
    if (!shards) return;
    discard_stripes(model, shards);
    ls_store_norms_free(&shards->norms);
    ls_free(ls_steal(shards->shares));
    ls_free(ls_steal(shards->own));
}

void ls_shards_free(ls_model *model) {
    struct ls_shards *shards = model->built.shards;
    if (!shards) return;
    for (int i = 0; i < LS_DIVISIONS_KEPT; i++) ls_holding_free(shards->kept[i]);
    ls_free(ls_steal(model->built.shards));
}

/* The stripes of rank order are the blob. */
ls_status ls_shards_fetch(ls_model *model, int64_t step) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    const struct ls_shards *shards = model->built.shards;
    const struct ls_holding *holding = shards->kept[0];
    size_t size = (size_t)runtime->size, parts = model->built.state_count;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, counts, 2 * size, "moments on their way");
    const struct ls_layout layout = ls_layout_of(&shards->terms, runtime->size);
    counts[0] = holding->held[0].range.end - holding->held[0].range.begin;
    for (int i = 0; !runtime->rank && i < runtime->size; i++) {
        struct ls_range range = ls_layout_range(&layout, 0, i);
        counts[size + (size_t)i] = range.end - range.begin;
    }
    ls_status status = runtime->rank ? LS_OK : ls_parts_expect(model->built.state, parts);
    for (int m = 1; m <= shards->terms.moments && !status; m++) {
        const struct ls_all_to_all call = {.name = "moments",
                                           .dtype = LS_FLOAT32,
                                           .input = counts[0] ? holding->blobs[0][m] + holding->held[0].at : NULL,
                                           .send_counts = counts,
                                           .output = runtime->rank ? NULL : model->built.state[m].copy,
                                           .receive_counts = counts + size};
        status = ls_group_all_to_all(runtime->group, &call);
        ls_reached("moments");
    }
    if (!status && !runtime->rank) ls_parts_arrived(model->built.state, parts, step);
    return status;
}

/* ---- how much ---- */

struct ls_shards_of ls_shards_here(const ls_model *model) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    const ls_strategy_options *options = &model->strategy->options;
    return (struct ls_shards_of){options->shard, options->shard_copies, runtime->size, runtime->rank};
}

void ls_shards_divide(const ls_model *model, const struct ls_shards_of *of, struct ls_shards_division *division) {
    division->terms = describe(model, &division->whole);
    division->terms.replicas = of->copies;
    division->layout = ls_layout_of(&division->terms, of->workers);
}

static size_t count_held(const ls_model *model, const struct ls_shards_of *of) {
    struct ls_shards_division division;
    ls_shards_divide(model, of, &division);
    return ls_holding_count(&division.terms, of->workers, of->worker);
}

size_t ls_shards_bytes(const ls_model *model, const struct ls_shards_of *of) {
    size_t moments = (size_t)ls_optimizer_moments(&model->progress.step.rule);
    return moments * count_held(model, of) * sizeof(float);
}

size_t ls_shards_update_bytes(size_t count, int moments) {
    size_t line = LS_ALIGNMENT / sizeof(float);
    return (1 + (size_t)moments) * ((count + line - 1) / line * line) * sizeof(float);
}

static size_t update_bytes(const ls_model *model, const struct ls_shards_of *of) {
    return ls_shards_update_bytes(count_held(model, of), ls_optimizer_moments(&model->progress.step.rule));
}

size_t ls_shards_planned_bytes(const ls_model *model, const struct ls_shards_of *of, size_t arena) {
    size_t update = update_bytes(model, of);
    return ls_shards_bytes(model, of) + (update > arena ? update : 0);
}

size_t ls_shards_left_bytes(const ls_model *model, const struct ls_shards_of *of, size_t arena) {
    size_t update = update_bytes(model, of);
    return update > arena ? arena : arena - update;
}

/* ---- copies ---- */

static int64_t checksum(const struct ls_shards *shards, const struct ls_held *held) {
    const struct ls_holding *holding = shards->kept[0];
    size_t size = (held->range.end - held->range.begin) * sizeof(float);
    uint64_t sum = 0;
    for (int m = 1; m <= shards->terms.moments && size; m++)
        sum = sum * UINT64_C(0x100000001B3) ^ ls_crc32c(holding->blobs[0][m] + held->at, size);
    return (int64_t)sum;
}

ls_status ls_shards_check(const ls_model *model) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    const struct ls_shards *shards = model->built.shards;
    const struct ls_layout layout = ls_layout_of(&shards->terms, runtime->size);
    size_t size = (size_t)runtime->size, copies = (size_t)layout.copies;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, counts, size, "checksums of moments");
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, all, (size + 1) * copies, "checksums of moments");
    int64_t *own = all + size * copies;
    for (size_t i = 0; i < size; i++) counts[i] = copies;
    for (size_t c = 0; c < copies; c++) own[c] = checksum(shards, &shards->kept[0]->held[c]);
    ls_status status =
        ls_group_all_gather(runtime->group, LS_ALL_GATHER("checksums of moments", own, all, counts, LS_INT64));
    for (size_t i = 0; i < size * copies && !status; i++) {
        int holder = (int)(i / copies), owner = ls_layout_before(&layout, holder, (int)(i % copies));
        if (all[i] != all[(size_t)owner * copies])
            status =
                ls_fail(LS_DATA_LOSS, "after iteration %lld rank %d has other moments of rank %d's part than it has",
                        (long long)model->progress.step.iteration, holder, owner);
    }
    return status;
}
