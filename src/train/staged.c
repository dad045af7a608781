/* A stage's place in the blobs, and what of them is here (train/staged.h). */
#include "train/staged.h"

#include "collective/collectives.h"
#include "model/layer.h"

bool ls_staged_is(const ls_model *model) {
    return model->sync->stages;
}

bool ls_staged_is_here(const ls_model *model, bool moments) {
    const struct ls_stages *stages = model->built.stages;
    return !stages || (moments ? stages->moments : stages->whole);
}

ls_status ls_staged_check(const ls_model *model, bool moments) {
    if (ls_staged_is_here(model, moments)) return LS_OK;
    return ls_fail(LS_FAILED_PRECONDITION,
                   "the variables after step %lld are on the workers of their stages: they come together at the end of "
                   "an epoch, and where a checkpoint is due",
                   (long long)model->progress.step.iteration);
}

/* ---- ranges ---- */

static int range_kind_of(const struct ls_network_variable *variable) {
    return variable->trained ? 0 : variable->moved ? 1 : 2;
}

/* The first element of that kind that a node from this one on has. Each kind is in the order of the nodes. */
static size_t find_border(const ls_model *model, size_t node, int kind) {
    const struct ls_network *network = model->built.network;
    const size_t ends[LS_STAGE_RANGES] = {ls_network_trainable_count(network), ls_network_summed_count(network),
                                          ls_network_blob_count(network)};
    for (size_t i = node; i < ls_network_layer_count(network); i++)
        for (int v = 0; v < ls_network_node(network, i)->variable_count; v++) {
            const struct ls_network_variable *variable =
                ls_network_variable_of(network, ls_network_node(network, i), v);
            if (range_kind_of(variable) == kind) return variable->offset;
        }
    return ends[kind];
}

struct ls_range ls_staged_range(const ls_model *model, int stage, int kind) {
    const size_t *starts = model->built.stages->starts + stage;
    return (struct ls_range){find_border(model, starts[0], kind), find_border(model, starts[1], kind)};
}

bool ls_staged_ends_at(const ls_model *model, size_t offset) {
    const struct ls_stages *stages = model->built.stages;
    for (int k = 0; stages && k < LS_STAGE_RANGES; k++)
        if (offset == stages->ranges[k].begin || offset == stages->ranges[k].end) return true;
    return false;
}

/* ---- sums ---- */

ls_status ls_staged_add(const struct ls_stages *stages, ls_dtype dtype, void *values, size_t count) {
    const void *input = values;
    if (stages->replicas == 1 || !count) return LS_OK;
    const struct ls_all_reduce call = {.name = "gradients of a stage",
                                       .op = LS_SUM,
                                       .dtype = dtype,
                                       .count = count,
                                       .inputs = &input,
                                       .outputs = &values};
    return ls_group_all_reduce(stages->crew, &call);
}

/* ---- memory ---- */

/* The variables of all stages come together at an epoch's end; gradients, their sums and moments are the stage's. */
size_t ls_staged_bytes(const ls_model *model) {
    const struct ls_stages *stages = model->built.stages;
    const ls_optimizer *rule = &model->progress.step.rule;
    size_t own = model->built.summed_count / (size_t)model->strategy->options.stages, blobs = 1;
    if (stages) own = stages->ranges[0].end - stages->ranges[0].begin + stages->ranges[1].end - stages->ranges[1].begin;
    blobs += (size_t)ls_optimizer_moments(rule) + (rule->gradient_accumulation_steps > 1);
    return (model->built.blob_count + blobs * own) * sizeof(float);
}

size_t ls_staged_arenas(const ls_model *model) {
    const struct ls_stages *stages = model->built.stages;
    size_t bytes = 0;
    for (int i = 0; i < stages->slot_count; i++) bytes += stages->slots[i].arena.size;
    return bytes;
}
