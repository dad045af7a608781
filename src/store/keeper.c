/* The calls of a server, each as the frame of rank 0 names it: the terms of a model at the beginning of a generation
 * (handover.c), pushes of its buckets in order, rows of its tables (before them), and a step. A step keeps what was
 * there, applies the optimizer to all that the server holds, and sends its own ranges. A worker's step is done when it
 * has them, so the version before is what the workers go back to where none is done. Workers that go back further
 * (sync/servers.c) tell with which steps servers keep what was there. */
#include "store/keeper.h"

#include <string.h>

#include "base/new.h"
#include "base/point.h"
#include "collective/collectives.h"
#include "collective/servers/push.h"
#include "device/device.h"
#include "store/handover.h"
#include "store/memory_check.h"
#include "store/row_calls.h"
#include "store/session/session_pushes.h"
#include "store/store_calls.h"
#include "store/store_norms.h"

#define MOST_WORDS (INT64_C(1) << 27)

struct model {
    struct model *next;
    struct ls_terms_model terms;
    struct ls_kept kept[2];
    struct ls_stripe *owned; /* [buckets][servers] */
    size_t pushed;           /* buckets of the step under way */
    struct ls_terms_step step;
    struct ls_op op;
    struct ls_store_norms norms;
    struct ls_row_step rows;
    bool built;
    struct ls_session_pushes *sessions; /* NULL unless it is trained asynchronously */
};
struct ls_keeper {
    const struct ls_log *log;
    struct ls_device *device;
    struct model *models;
    int64_t generation;
    int listed;
    bool lost, awaited; /* as of struct ls_handover */
    const char *record, *replay;
    struct ls_memory_limit limit;
};

ls_status ls_keeper_new(const struct ls_log *log, struct ls_keeper **keeper) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count;
    LS_NEW(struct ls_keeper, made, "a parameter server");
    made->log = log;
    made->limit.bytes = SIZE_MAX;
    ls_status status = ls_devices_open("cpu:0", 1, devices, &count);
    if (!status) made->device = devices[0];
    return LS_HAND_OVER(status, keeper, made, ls_free(made));
}

void ls_keeper_set_files(struct ls_keeper *keeper, const char *record, const char *replay) {
    keeper->record = record;
    keeper->replay = replay;
}

static void discard_op(const struct ls_keeper *keeper, struct model *model) {
    if (model->built) keeper->device->ops->discard(keeper->device, &model->op);
    model->built = false;
}

static void forget_generation(struct ls_keeper *keeper, struct model *model) {
    discard_op(keeper, model);
    model->pushed = 0;
    ls_store_norms_free(&model->norms);
    ls_free(ls_steal(model->owned));
    ls_row_calls_free(&model->rows);
}

static void free_model(struct ls_keeper *keeper, struct model *model) {
    forget_generation(keeper, model);
    for (size_t i = 0; i < sizeof(model->kept) / sizeof(model->kept[0]); i++) ls_holding_free(model->kept[i].holding);
    ls_session_pushes_free(model->sessions);
    ls_terms_free(&model->terms);
    ls_free(model);
}

void ls_keeper_free(struct ls_keeper *keeper) {
    if (!keeper) return;
    for (struct model *model = keeper->models, *next; model; model = next) {
        next = model->next;
        free_model(keeper, model);
    }
    ls_device_close(keeper->device);
    ls_free(keeper);
}

void ls_keeper_limit(struct ls_keeper *keeper, struct ls_memory_limit limit) {
    keeper->limit = limit;
}

void ls_keeper_begin(struct ls_keeper *keeper, int64_t generation, int listed) {
    keeper->generation = generation;
    keeper->listed = listed;
    for (struct model *model = keeper->models; model; model = model->next) forget_generation(keeper, model);
}

bool ls_keeper_has_lost(const struct ls_keeper *keeper) {
    return keeper->lost;
}

static struct model *find_model(const struct ls_keeper *keeper, int64_t number) {
    struct model *model = keeper->models;
    while (model && model->terms.model != number) model = model->next;
    return model;
}

/* ---- terms ---- */

static ls_status receive_terms(struct ls_group *group, struct ls_terms_model *terms) {
    int64_t count = 0;
    ls_status status = ls_group_broadcast_directly(group, LS_STORE_TERMS, LS_INT64, &count, 1);
    if (status) return status;
    if (count < 1 || count > MOST_WORDS)
        return ls_fail(LS_DATA_LOSS, "rank 0 tells of a model in %lld words", (long long)count);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, words, (size_t)count, "the terms of a model");
    status = ls_group_broadcast(group, LS_BROADCAST(LS_STORE_TERMS, words, (size_t)count, LS_INT64));
    return status ? status : ls_terms_decode(words, (size_t)count, terms);
}

static ls_status take_model(struct ls_keeper *keeper, struct ls_terms_model *terms, struct model **found) {
    struct model *model = find_model(keeper, terms->model);
    if (!model) {
        model = ls_alloc(sizeof(*model));
        if (!model) return ls_fail_memory("a model", sizeof(*model));
        model->next = keeper->models;
        keeper->models = model;
    }
    forget_generation(keeper, model);
    ls_terms_free(&model->terms);
    model->terms = *terms;
    *terms = (struct ls_terms_model){0};
    *found = model;
    return LS_OK;
}

/* ---- sessions ---- */

static ls_status apply_push(void *context, const struct ls_optimizer_step *step);

/* The ops are on the keeper's device. */
struct applying {
    struct ls_keeper *keeper;
    struct model *model;
};

static struct ls_session_target target_of(struct applying *applying) {
    return (struct ls_session_target){.terms = &applying->model->terms,
                                      .holding = applying->model->kept[0].holding,
                                      .apply = apply_push,
                                      .context = applying,
                                      .log = applying->keeper->log,
                                      .generation = applying->keeper->generation,
                                      .record = applying->keeper->record,
                                      .replay = applying->keeper->replay};
}

/* Before the handover. The ops are of the holding that it may replace. */
static ls_status settle(struct ls_keeper *keeper, struct ls_group *group, struct model *model) {
    struct applying applying = {keeper, model};
    const struct ls_session_target target = target_of(&applying);
    if (!model->terms.asynchronous) return LS_OK;
    ls_status status = model->sessions ? LS_OK : ls_session_pushes_new(&model->sessions);
    if (!status) status = ls_session_settle_run(model->sessions, group, &target);
    discard_op(keeper, model);
    return status;
}

static ls_status take_session(struct ls_keeper *keeper, struct ls_group *group) {
    int64_t words[LS_SESSION_WORDS];
    struct ls_session session;
    ls_status status = ls_group_broadcast_directly(group, LS_STORE_SESSION, LS_INT64, words, LS_SESSION_WORDS);
    if (!status) status = ls_session_decode(words, &session);
    if (status) return status;
    struct applying applying = {keeper, find_model(keeper, session.model)};
    if (!applying.model || !applying.model->owned || !applying.model->sessions)
        return ls_fail(LS_DATA_LOSS, "rank 0 trains model %lld, which this parameter server does not keep",
                       (long long)session.model);
    const struct ls_session_target target = target_of(&applying);
    return ls_session_server_run(applying.model->sessions, group, &session, &target);
}

/* ---- terms, the whole ---- */

static ls_status prepare(struct ls_group *group, struct model *model) {
    int servers = ls_group_serving(group);
    const struct ls_layout layout = ls_layout_of(&model->terms, servers);
    model->owned = ls_layout_stripes(&layout, true);
    if (!model->owned) return ls_fail_memory("a model's buckets", model->terms.bucket_count * sizeof(*model->owned));
    if (model->terms.asynchronous) return LS_OK;
    return ls_store_norms_new(group, ls_group_size(group) - servers, &model->terms, model->kept[0].holding,
                              &model->norms);
}

/* A division that is no more is kept until the new one is there. */
static size_t bytes_kept(const struct ls_keeper *keeper, const struct model *next, int servers, int server) {
    size_t bytes = 0;
    for (const struct model *model = keeper->models; model; model = model->next)
        for (size_t i = 0; i < sizeof(model->kept) / sizeof(model->kept[0]); i++) {
            const struct ls_holding *holding = model->kept[i].holding;
            bool stays = model == next && holding && holding->servers == servers && holding->server == server;
            if (holding && !stays) bytes += ls_holding_bytes(holding, model->terms.moments);
        }
    return bytes;
}

static struct ls_memory_need find_need(const struct ls_keeper *keeper, const struct ls_group *group,
                                       const struct model *model) {
    int servers = ls_group_serving(group), workers = ls_group_size(group) - servers;
    int server = ls_group_rank(group) - workers;
    return ls_memory_check_find(&(struct ls_memory_check){.terms = &model->terms,
                                                          .workers = workers,
                                                          .servers = servers,
                                                          .server = server,
                                                          .others = bytes_kept(keeper, model, servers, server),
                                                          .limit = keeper->limit});
}

/* The workers begin anew, and their models too. */
static void forget_models(struct ls_keeper *keeper, struct ls_group *group) {
    for (struct model *model = keeper->models; model; model = model->next)
        for (size_t i = 0; i < sizeof(model->kept) / sizeof(model->kept[0]); i++) {
            ls_holding_free(model->kept[i].holding);
            model->kept[i] = (struct ls_kept){0};
        }
    ls_group_sever(group);
}

static ls_status meet_workers(struct ls_keeper *keeper, struct ls_group *group, struct model *model) {
    struct ls_handover handover = {
        .group = group, .terms = &model->terms, .listed = keeper->listed, .awaited = keeper->awaited};
    memcpy(handover.kept, model->kept, sizeof(model->kept));
    handover.need = find_need(keeper, group, model);
    ls_status status = ls_handover_run(&handover, keeper->generation);
    memcpy(model->kept, handover.kept, sizeof(model->kept));
    if (model->sessions && handover.changed) ls_session_pushes_forget(model->sessions, keeper->generation);
    keeper->lost |= handover.lost;
    if (handover.anew) forget_models(keeper, group);
    if (handover.waits) ls_group_sever(group);
    if (handover.waits || !status) keeper->awaited = handover.waits;
    if (status) return status;
    if (model->sessions && !handover.waits) ls_session_pushes_divide(model->sessions, keeper->generation);
    const struct ls_holding *holding = model->kept[0].holding;
    if (handover.moved)
        ls_log_info(keeper->log,
                    "keeps %s and %d moments of model %lld after step %lld, %d cop%s of each; its part takes "
                    "%.1f MB",
                    model->terms.count ? "variables" : "tables", model->terms.moments, (long long)model->terms.model,
                    (long long)holding->version[0], holding->replicas, holding->replicas == 1 ? "y" : "ies",
                    (double)ls_holding_bytes(holding, model->terms.moments) / 1e6);
    return prepare(group, model);
}

static ls_status take_terms(struct ls_keeper *keeper, struct ls_group *group) {
    LS_CLEANUP(ls_terms_free) struct ls_terms_model terms = {0};
    struct model *model = NULL;
    ls_status status = receive_terms(group, &terms);
    if (!status) status = take_model(keeper, &terms, &model);
    if (!status) status = settle(keeper, group, model);
    return status ? status : meet_workers(keeper, group, model);
}

/* ---- a push ---- */

static ls_status take_bucket(struct ls_keeper *keeper, struct ls_group *group, const struct ls_frame *frame) {
    struct model *model = find_model(keeper, ls_store_calls_model(frame->name));
    if (!model || !model->owned || model->pushed == model->terms.bucket_count)
        return ls_fail(LS_DATA_LOSS, "rank 0 pushes '%s', which this parameter server does not keep", frame->name);
    struct ls_holding *holding = model->kept[0].holding;
    size_t bucket = model->pushed, buckets = model->terms.bucket_count;
    char next[64];
    ls_store_calls_name(model->terms.model, bucket, next);
    if (strcmp(frame->name, next) != 0)
        return ls_fail(LS_INVALID_ARGUMENT, "rank 0 pushes '%s', and '%s' is next", frame->name, next);
    const struct ls_range *range = &model->terms.buckets[bucket];
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(void *, places, (size_t)holding->replicas, "a bucket's places");
    for (int h = 0; h < holding->replicas; h++)
        places[h] = holding->gradients + holding->held[(size_t)h * buckets + bucket].at;
    const struct ls_push push = {.name = frame->name,
                                 .count = range->end - range->begin,
                                 .owned = model->owned + bucket * (size_t)holding->servers,
                                 .copies = holding->replicas - 1,
                                 .compression = (ls_compression)frame->compression,
                                 .outputs = places};
    ls_status status = ls_group_push(group, &push);
    if (!status) model->pushed++;
    ls_reached("push");
    return status;
}

/* ---- rows of tables ---- */

static ls_status give_rows(struct ls_keeper *keeper, struct ls_group *group) {
    int64_t number = 0;
    ls_status status = ls_group_broadcast_directly(group, LS_STORE_ROWS, LS_INT64, &number, 1);
    if (status) return status;
    struct model *model = find_model(keeper, number);
    if (!model || !model->owned || !model->terms.table_count)
        return ls_fail(LS_DATA_LOSS, "rank 0 wants rows of model %lld, which has none here", (long long)number);
    return ls_row_calls_give(group, &model->terms, model->kept[0].holding, &model->rows);
}

/* ---- a step ---- */

static ls_status build_op(struct ls_keeper *keeper, struct model *model) {
    const struct ls_holding *holding = model->kept[0].holding;
    const ls_shape shape = LS_SHAPE((int64_t)holding->count);
    struct ls_op op = {.kind = (enum ls_op_kind)model->terms.kind,
                       .step = &model->step.step,
                       .variables = holding->parts,
                       .variable_count = holding->part_count,
                       .norms = model->norms.counts ? &model->norms.norms : NULL};
    op.tensors[LS_ARG_GRADIENTS] = (struct ls_tensor){holding->gradients, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){holding->blobs[0][0], LS_FLOAT32, shape, 0};
    for (int m = 0; m < model->terms.moments; m++)
        op.tensors[LS_ARG_MOMENT_1 + m] = (struct ls_tensor){holding->blobs[0][1 + m], LS_FLOAT32, shape, 0};
    model->op = op;
    ls_status status = keeper->device->ops->build(keeper->device, &model->op);
    model->built = !status;
    return status;
}

static ls_status run_op(struct ls_keeper *keeper, struct model *model) {
    ls_status status = model->built ? ls_op_check(&model->op) : build_op(keeper, model);
    return status ? status : ls_table_run_op(keeper->device, &model->op);
}

/* A server among more than there are chunks holds nothing. */
static ls_status apply_step(struct ls_keeper *keeper, struct model *model) {
    struct ls_holding *holding = model->kept[0].holding;
    if (model->step.keep) ls_holding_keep(holding, model->terms.moments);
    ls_status status = holding->count ? run_op(keeper, model) : ls_store_norms_pass(&model->norms, &model->step.step);
    if (!status) status = ls_row_calls_apply(&model->terms, holding, keeper->device, &model->step.step, &model->rows);
    holding->version[0] = status ? -1 : model->step.step.iteration;
    ls_reached("applied");
    return status;
}

static ls_status take_step(struct ls_keeper *keeper, struct ls_group *group) {
    int64_t words[LS_STEP_WORDS];
    struct ls_terms_step step;
    ls_status status = ls_group_broadcast_directly(group, LS_STORE_STEP, LS_INT64, words, LS_STEP_WORDS);
    if (!status) status = ls_terms_step_decode(words, &step);
    if (status) return status;
    struct model *model = find_model(keeper, step.model);
    if (!model || !model->owned || model->pushed != model->terms.bucket_count ||
        (model->terms.table_count && !model->rows.wanted) ||
        step.step.iteration != model->kept[0].holding->version[0] + 1)
        return ls_fail(LS_DATA_LOSS, "rank 0 tells of step %lld of model %lld, which is not this server's next",
                       (long long)step.step.iteration, (long long)step.model);
    model->pushed = 0;
    model->step = step;
    const struct ls_holding *holding = model->kept[0].holding;
    const struct ls_store_pull pull = {.group = group, .terms = &model->terms, .holding = holding, .to = -1};
    if (model->terms.table_count) status = ls_row_calls_take(group, &model->terms, holding, &model->rows);
    if (!status) status = apply_step(keeper, model);
    ls_row_calls_free(&model->rows);
    if (!status) status = ls_store_calls_pull_in_turn(&pull, NULL, NULL);
    if (!status && step.fetch) status = ls_store_calls_pull_moments(pull, NULL);
    if (!status && step.fetch) status = ls_row_calls_fetch(group, &model->terms, holding, NULL);
    return status;
}

/* Moments after a session. */
static ls_status take_fetch(const struct ls_keeper *keeper, struct ls_group *group) {
    int64_t number = -1;
    ls_status status = ls_group_broadcast_directly(group, LS_STORE_FETCH, LS_INT64, &number, 1);
    if (status || number < 0) return status;
    struct model *model = find_model(keeper, number);
    if (!model || !model->owned)
        return ls_fail(LS_DATA_LOSS, "rank 0 asks for moments of model %lld, which this parameter server does not keep",
                       (long long)number);
    const struct ls_store_pull pull = {.group = group, .terms = &model->terms, .holding = model->kept[0].holding};
    return ls_store_calls_pull_moments(pull, NULL);
}

/* As one step of those that come in a session. Norms are those of whole variables: one server has them. */
static ls_status apply_push(void *context, const struct ls_optimizer_step *step) {
    struct applying *applying = context;
    applying->model->step.step = *step;
    return applying->model->kept[0].holding->count ? run_op(applying->keeper, applying->model) : LS_OK;
}

ls_status ls_keeper_call(void *keeper, struct ls_group *group, const struct ls_frame *frame) {
    if (frame->kind == LS_KIND_PUSH) return take_bucket(keeper, group, frame);
    if (!strcmp(frame->name, LS_STORE_TERMS)) return take_terms(keeper, group);
    if (!strcmp(frame->name, LS_STORE_ROWS)) return give_rows(keeper, group);
    if (!strcmp(frame->name, LS_STORE_STEP)) return take_step(keeper, group);
    if (!strcmp(frame->name, LS_STORE_SESSION)) return take_session(keeper, group);
    if (!strcmp(frame->name, LS_STORE_FETCH)) return take_fetch(keeper, group);
    return ls_fail(LS_DATA_LOSS, "rank 0 tells a parameter server of '%s', which it does not know", frame->name);
}
