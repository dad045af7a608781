/* A worker's stage of a pipeline (train/stages.h): its ranges of the blobs, its micro-batches, and its update. */
#include "train/stages.h"

#include <string.h>

#include "base/new.h"
#include "base/point.h"
#include "base/shape.h"
#include "base/text.h"
#include "collective/collectives.h"
#include "collective/messages/mail.h"
#include "device/norm.h"
#include "model/layer.h"
#include "model/plan_run.h"
#include "model/stages.h"
#include "strategy/stages.h"
#include "train/model_build.h"
#include "train/step.h"

static int stage_of(const struct ls_stages *stages, size_t node) {
    int stage = 0;
    while (node >= stages->starts[stage + 1]) stage++;
    return stage;
}

/* The table's gradient is a sum of both stages' parts, in the order of one device: the head's comes first. */
static void find_table(const ls_model *model, struct ls_stages *stages) {
    const struct ls_network *network = model->built.network;
    for (size_t i = 0; i < ls_network_layer_count(network); i++) {
        const struct ls_node *head = ls_network_node(network, i);
        if (head->layer.kind != LS_LAYER_TIED_DENSE) continue;
        const struct ls_network_variable *table =
            ls_network_variable_of(network, ls_network_node(network, (size_t)head->tied), 0);
        stages->head_stage = stage_of(stages, i);
        stages->table_stage = stage_of(stages, (size_t)head->tied);
        if (stages->head_stage != stages->table_stage)
            stages->table = (struct ls_range){table->offset, table->offset + table->count};
    }
}

/* ---- the cuts ---- */

static ls_status check_model(const ls_model *model) {
    if (model->spec.objective.precision == LS_MIXED_FLOAT16)
        return ls_fail(LS_UNIMPLEMENTED, "stages: a pipeline has no loss scaling: take precision mixed_bfloat16 or "
                                         "float32 in place of mixed_float16");
    if (ls_model_build_is_regularized(model))
        return ls_fail(LS_UNIMPLEMENTED, "stages: a layer has a regularizer, whose penalty is a sum over all stages; "
                                         "take weight_decay in its place, or leave stages out");
    return ls_sync_batch_norm_refuse(model, "stages", "and a stage has no other one to meet; take one that is not");
}

/* The cuts are the same on all workers, whatever processors they have. */
static ls_status agree(const ls_model *model) {
    const struct ls_stages *stages = model->built.stages;
    LS_CLEANUP(ls_free_pointer) char *line = NULL;
    struct ls_text made;
    FILE *out = ls_text_open(&made, 1);
    if (out) (void)fprintf(out, "cuts=");
    for (int s = 0; out && s <= stages->count; s++) (void)fprintf(out, "%s%zu", s ? "," : "", stages->starts[s]);
    if (out) (void)fputc('\n', out);
    ls_status status = ls_text_close(&made, LS_OK, "the cuts of a pipeline", &line);
    return status ? status : ls_runtime_agree(model->strategy->runtime, "stages", line);
}

static void tell(const ls_model *model) {
    const struct ls_stages *stages = model->built.stages;
    const struct ls_network *network = model->built.network;
    for (int s = 0; s < stages->count; s++) {
        struct ls_range trained = ls_staged_range(model, s, 0);
        ls_runtime_tell(model->strategy->runtime, "stage %d of %d: layers '%s' to '%s', %zu trained elements", s,
                        stages->count, ls_network_node(network, stages->starts[s])->name,
                        ls_network_node(network, stages->starts[s + 1] - 1)->name, trained.end - trained.begin);
    }
}

static size_t count_chunks(const ls_model *model, struct ls_range range) {
    size_t chunks = 0;
    for (size_t i = 0; i < model->built.part_count; i++) {
        const struct ls_blob_part *part = &model->built.parts[i];
        if (part->offset >= range.begin && part->offset < range.end)
            chunks += ls_norm_chunks(part->offset, part->count);
    }
    return chunks;
}

static ls_status cut(ls_model *model) {
    struct ls_stages *stages = model->built.stages;
    const struct ls_plan_config config = ls_plan_slots_config(model, 0, model->built.room.rows, true);
    ls_status status = ls_stages_cut(&config, stages->count, stages->starts);
    if (!status) status = agree(model);
    if (status) return status;
    for (int k = 0; k < LS_STAGE_RANGES; k++) stages->ranges[k] = ls_staged_range(model, stages->own, k);
    for (int s = 0; s < stages->count; s++) stages->chunks[s] = count_chunks(model, ls_staged_range(model, s, 0));
    find_table(model, stages);
    tell(model);
    return LS_OK;
}

/* A stage is on one worker alone: without it nobody goes on, or all go back to a checkpoint. */
static ls_status find_way_back(const ls_model *model) {
    struct ls_runtime *runtime = model->strategy->runtime;
    struct ls_stages *stages = model->built.stages;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, told, (size_t)runtime->size, "what workers can go back to");
    ls_status status = ls_runtime_exchange(runtime, "can go back", model->progress.returns, told);
    stages->returns = true;
    for (int i = 0; i < runtime->size; i++) stages->returns = stages->returns && told[i];
    runtime->lost = !status && !stages->returns;
    return status;
}

ls_status ls_stages_attach(ls_model *model) {
    if (!ls_staged_is(model) || model->built.stages) return LS_OK;
    ls_status status = check_model(model);
    if (status) return status;
    LS_NEW(struct ls_stages, made, "a stage");
    size_t count = (size_t)model->strategy->options.stages;
    *made = (struct ls_stages){.own = ls_stages_stage(model->strategy),
                               .count = (int)count,
                               .replica = ls_stages_replica(model->strategy),
                               .replicas = ls_stages_replicas(model->strategy),
                               .whole = true,
                               .moments = true,
                               .starts = ls_alloc_array(count + 1, sizeof(size_t)),
                               .chunks = ls_alloc_array(count, sizeof(size_t))};
    made->first = model->strategy->runtime->rank - made->own;
    model->built.stages = made;
    status = made->starts && made->chunks ? ls_stages_crew(model->strategy, &made->crew)
                                          : ls_fail_memory("stages", count * sizeof(size_t));
    if (!status) status = cut(model);
    if (!status) status = ls_group_connect(made->crew);
    if (!status) status = find_way_back(model);
    if (status) ls_stages_free(model);
    return status;
}

/* ---- the update ---- */

/* The chunks of all stages, one stage after the other, are those of all variables in their order. */
static ls_status join_norms(void *context, const double *chunks, size_t count, int kinds, double *squares,
                            double *total) {
    const ls_model *model = context;
    const struct ls_stages *stages = model->built.stages;
    size_t width = (size_t)kinds, sum = 0, own = 0, at = 0;
    LS_CLEANUP(ls_free_pointer)
    LS_NEW_ARRAY(size_t, counts, (size_t)stages->count * (size_t)stages->replicas, "norms");
    for (int s = 0; s < stages->count; s++) sum += counts[s] = stages->chunks[s] * width; /* all replicas have them */
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(double, all, sum + 1, "norms");
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(double, wholes, width * model->built.part_count, "norms");
    (void)count;
    ls_status status =
        ls_group_all_gather(model->strategy->runtime->group, LS_ALL_GATHER("norms", chunks, all, counts, LS_FLOAT64));
    for (size_t v = 0; v < model->built.part_count && !status; v++) {
        const struct ls_blob_part *part = &model->built.parts[v];
        size_t many = ls_norm_chunks(part->offset, part->count);
        ls_norm_add(all + at, many, kinds, wholes + v * width);
        at += many * width;
        if (part->offset < stages->ranges[0].begin || part->offset >= stages->ranges[0].end) continue;
        memcpy(squares + own, wholes + v * width, width * sizeof(*squares));
        own += width;
    }
    if (!status) ls_norm_add(wholes, model->built.part_count, kinds, total);
    return status;
}

/* Chunks of norms are counted from the beginning of the blob, so the op begins with one: what lies in it before the
 * stage is another one's, of which this worker knows nothing. */
static ls_status build_update(ls_model *model) {
    struct ls_stages *stages = model->built.stages;
    const struct ls_model_replica *replica = &model->built.replicas[0];
    struct ls_range own = stages->ranges[0];
    size_t base = own.begin / LS_NORM_CHUNK * LS_NORM_CHUNK, first = 0, count = 0;
    LS_CLEANUP(ls_free_pointer)
    LS_NEW_ARRAY(struct ls_blob_part, parts, model->built.part_count + 1, "the variables of a stage");
    for (size_t i = 0; i < model->built.part_count; i++) {
        const struct ls_blob_part *part = &model->built.parts[i];
        if (part->offset < own.begin || part->offset >= own.end) continue;
        parts[first + count] = *part;
        parts[first + count++].offset -= base;
    }
    struct ls_optimizer_blobs blobs = {.count = own.end - base,
                                       .parameters = replica->parameters + base,
                                       .gradients = replica->gradients + base,
                                       .parts = parts,
                                       .part_count = count};
    for (int m = 0; m < ls_optimizer_moments(&model->progress.step.rule); m++)
        blobs.moments[m] = replica->moments[m] + base;
    ls_status status = ls_optimizer_build(replica->device, &model->built.numbers->step, &blobs, &stages->update);
    stages->updates = !status;
    stages->norms = (struct ls_norms){join_norms, model};
    stages->update.norms = &stages->norms;
    if (!status) stages->parts = ls_steal(parts);
    return status;
}

/* The moving statistics get the changes that the step's micro-batches have added up. */
static ls_status build_moving(const ls_model *model) {
    struct ls_stages *stages = model->built.stages;
    const struct ls_model_replica *replica = &model->built.replicas[0];
    struct ls_range own = stages->ranges[1];
    const ls_shape shape = LS_SHAPE((int64_t)(own.end - own.begin));
    struct ls_op op = {.kind = LS_OP_ADD};
    if (own.begin == own.end) return LS_OK;
    op.tensors[LS_ARG_X] = op.tensors[LS_ARG_Y] =
        (struct ls_tensor){replica->parameters + own.begin, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_W] = (struct ls_tensor){replica->gradients + own.begin, LS_FLOAT32, shape, 0};
    stages->statistics = op;
    ls_status status = replica->device->ops->build(replica->device, &stages->statistics);
    stages->moves = !status;
    return status;
}

ls_status ls_stages_build(ls_model *model) {
    if (!ls_staged_is(model)) return LS_OK;
    ls_status status = build_update(model);
    return status ? status : build_moving(model);
}

/* ---- micro-batches ---- */

static void drop_plans(struct ls_stage_slot *slot) {
    for (int i = 0; i < 2; i++) ls_plan_free(ls_steal(slot->plans[i]));
}

static void release_slot(struct ls_stage_slot *slot) {
    drop_plans(slot);
    ls_arena_release(&slot->arena);
    ls_free(slot->input.features);
    ls_free(slot->input.targets);
    ls_free(slot->input.weights);
    ls_free(slot->entry);
}

void ls_stages_detach(ls_model *model) {
    struct ls_stages *stages = model->built.stages;
    if (!stages) return;
    struct ls_device *device = model->built.replicas[0].device;
    for (int i = 0; i < stages->slot_count; i++) drop_plans(&stages->slots[i]); /* they point to the gradients */
    if (stages->updates) device->ops->discard(device, &stages->update);
    if (stages->moves) device->ops->discard(device, &stages->statistics);
    stages->updates = stages->moves = false;
    ls_free(ls_steal(stages->parts));
}

void ls_stages_free(ls_model *model) {
    struct ls_stages *stages = ls_steal(model->built.stages);
    if (!stages) return;
    for (int i = 0; i < stages->slot_count; i++) release_slot(&stages->slots[i]);
    ls_free(stages->slots);
    ls_free(stages->chunks);
    ls_free(stages->starts);
    ls_free(stages);
}

ls_status ls_stages_reserve(ls_model *model, int slots) {
    struct ls_stages *stages = model->built.stages;
    if (slots <= stages->slot_count) return LS_OK;
    LS_NEW_ARRAY(struct ls_stage_slot, made, (size_t)slots, "micro-batches");
    if (stages->slot_count) memcpy(made, stages->slots, (size_t)stages->slot_count * sizeof(*made));
    for (int i = 0; i < stages->slot_count; i++) drop_plans(&made[i]); /* they point to the arenas */
    for (int i = stages->slot_count; i < slots; i++) made[i].arena.device = model->built.replicas[0].device;
    ls_free(stages->slots);
    stages->slots = made;
    stages->slot_count = slots;
    return LS_OK;
}

static size_t entry_floats(const ls_model *model, int64_t rows) {
    const struct ls_stages *stages = model->built.stages;
    size_t begin = stages->starts[stages->own];
    if (!begin) return 0;
    return (size_t)(rows * ls_shape_count(&ls_network_node(model->built.network, begin - 1)->output));
}

/* Memory for as many rows as the model's inputs hold. */
static ls_status reserve_slot(const ls_model *model, struct ls_stage_slot *slot) {
    const struct ls_stages *stages = model->built.stages;
    const struct ls_input_room *room = &model->built.room;
    size_t rows = (size_t)room->rows, features = rows * (size_t)ls_shape_count(&model->built.input);
    if (slot->room.rows >= room->rows && slot->room.targets >= room->targets) return LS_OK;
    release_slot(slot);
    *slot = (struct ls_stage_slot){.arena.device = model->built.replicas[0].device, .room = *room, .rows = slot->rows};
    slot->input.features = ls_alloc_aligned((stages->own ? 1 : features) * sizeof(float));
    slot->input.targets = ls_alloc_aligned(rows * (size_t)room->targets * sizeof(float));
    slot->input.weights = ls_alloc_aligned(rows * sizeof(float));
    slot->entry = ls_alloc_aligned((entry_floats(model, room->rows) + 1) * sizeof(float));
    if (slot->input.features && slot->input.targets && slot->input.weights && slot->entry) return LS_OK;
    slot->room = (struct ls_input_room){0};
    return ls_fail_memory("a micro-batch", features * sizeof(float));
}

/* The replica's batch, as the slot keeps it. */
static struct ls_plan_config describe_plan(ls_model *model, struct ls_stage_slot *slot) {
    const struct ls_stages *stages = model->built.stages;
    struct ls_plan_config config = ls_plan_slots_config(model, 0, slot->rows, true);
    bool last = stages->own == stages->count - 1;
    slot->stage = (struct ls_plan_stage){stages->starts[stages->own], stages->starts[stages->own + 1], slot->entry};
    config.stage = &slot->stage;
    config.arena = &slot->arena;
    config.features = slot->input.features;
    config.labels = config.labels && last ? slot->input.targets : NULL;
    config.numbers = config.numbers && last ? slot->input.targets : NULL;
    config.weights = config.weights ? slot->input.weights : NULL;
    config.replica = stages->replica;
    return config;
}

/* The plan of other rows is the next one to go. */
static void change_places(struct ls_stage_slot *slot) {
    struct ls_plan *plan = slot->plans[0];
    int64_t rows = slot->plan_rows[0];
    slot->plans[0] = slot->plans[1];
    slot->plan_rows[0] = slot->plan_rows[1];
    slot->plans[1] = plan;
    slot->plan_rows[1] = rows;
}

static bool has_plan(const struct ls_stage_slot *slot) {
    return slot->plans[0] && slot->plan_rows[0] == slot->rows;
}

ls_status ls_stages_find(ls_model *model, struct ls_stage_slot *slot) {
    const struct ls_target_kind *kind = ls_pipeline_targets(model->progress.pipeline);
    ls_status status = reserve_slot(model, slot);
    if (slot->numbers != kind->numbers || slot->weighted != kind->weighted) drop_plans(slot);
    slot->numbers = kind->numbers;
    slot->weighted = kind->weighted;
    if (!has_plan(slot)) change_places(slot);
    if (status || has_plan(slot)) return status;
    ls_plan_free(ls_steal(slot->plans[0]));
    const struct ls_plan_config config = describe_plan(model, slot);
    slot->plan_rows[0] = slot->rows;
    return ls_plan_new(&config, &slot->plans[0]);
}

ls_status ls_stages_forward(struct ls_stage_slot *slot, const float **outputs) {
    ls_status status = ls_plan_run_forward(slot->plans[0]);
    *outputs = ls_plan_outputs(slot->plans[0]);
    return status;
}

float *ls_stages_output_gradient(struct ls_stage_slot *slot) {
    return ls_plan_output_gradient(slot->plans[0]);
}

ls_status ls_stages_backward(struct ls_stage_slot *slot, const float **gradient) {
    ls_status status = ls_plan_run_backward(slot->plans[0], NULL, NULL);
    *gradient = ls_plan_entry_gradient(slot->plans[0]);
    return status;
}

/* ---- what other stages have ---- */

/* The own ranges, and the table of a head here, in the order of the blob; [LS_STAGE_RANGES + 1] of them. */
static void list_kept(const struct ls_stages *stages, struct ls_range *kept) {
    const struct ls_range none = {0, 0}, table = stages->head_stage == stages->own ? stages->table : none;
    int at = LS_STAGE_RANGES;
    memcpy(kept, stages->ranges, sizeof(stages->ranges));
    for (; at && table.begin < kept[at - 1].begin; at--) kept[at] = kept[at - 1];
    kept[at] = table;
}

static void forget_blob(const struct ls_stages *stages, float *blob, size_t count) {
    struct ls_range kept[LS_STAGE_RANGES + 1];
    size_t at = 0;
    list_kept(stages, kept);
    for (int i = 0; i <= LS_STAGE_RANGES; i++) {
        if (kept[i].begin >= kept[i].end || kept[i].begin >= count) continue;
        ls_memory_clear(blob + at, (kept[i].begin - at) * sizeof(*blob));
        at = kept[i].end < count ? kept[i].end : count;
    }
    ls_memory_clear(blob + at, (count - at) * sizeof(*blob));
}

void ls_stages_forget(ls_model *model) {
    struct ls_stages *stages = model->built.stages;
    const struct ls_model_replica *replica = &model->built.replicas[0];
    if (stages->whole) forget_blob(stages, replica->parameters, model->built.blob_count);
    for (int m = 0; m < ls_optimizer_moments(&model->progress.step.rule) && stages->moments; m++)
        forget_blob(stages, replica->moments[m], model->built.summed_count);
    stages->whole = stages->moments = false;
}

static ls_status gather_variables(ls_model *model) {
    const struct ls_stages *stages = model->built.stages;
    float *variables = model->built.replicas[0].parameters;
    ls_status status = LS_OK;
    for (int s = 0; s < stages->count; s++)
        for (int k = 0; k < LS_STAGE_RANGES && !status; k++) {
            struct ls_range range = ls_staged_range(model, s, k);
            if (range.begin == range.end) continue;
            status = ls_group_broadcast(
                model->strategy->runtime->group,
                LS_BROADCAST("variables of a stage", variables + range.begin, range.end - range.begin, LS_FLOAT32, s));
        }
    return status;
}

static ls_status move_moment(const ls_model *model, float *moment, int stage) {
    struct ls_group *group = model->strategy->runtime->group;
    int own = model->strategy->runtime->rank; /* of the first replica: its stage */
    struct ls_range range = ls_staged_range(model, stage, 0);
    size_t count = range.end - range.begin;
    if (own == stage)
        return ls_mail_send(group, LS_SEND("moments of a stage", moment + range.begin, count, LS_FLOAT32, 0));
    if (own) return LS_OK;
    return ls_mail_receive(group, LS_RECEIVE("moments of a stage", moment + range.begin, count, LS_FLOAT32, stage));
}

ls_status ls_stages_gather(ls_model *model, bool moments) {
    struct ls_stages *stages = model->built.stages;
    int count = ls_optimizer_moments(&model->progress.step.rule);
    ls_status status = gather_variables(model);
    for (int m = 0; m < count && moments; m++)
        for (int s = 1; s < stages->count && !status; s++)
            status = move_moment(model, model->built.replicas[0].moments[m], s);
    ls_reached("gather");
    stages->whole = !status;
    stages->moments = !status && moments && !model->strategy->runtime->rank;
    return status;
}
