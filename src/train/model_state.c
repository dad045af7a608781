/* A model's state as one array, and copies of parts of it in host memory. */
#include "train/model_state.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "model/optimizer.h"
#include "train/model.h"
#include "train/shards.h"
#include "train/staged.h"
#include "train/sparse.h"

static int moments(const ls_model *model) {
    return ls_optimizer_moments(&model->progress.step.rule);
}

/* A strategy says who owns what. */
static enum ls_owners owners_of(const ls_model *model, int blob) {
    if (ls_shards_are(model) && blob) return LS_OWNED_BY_WORKERS;
    if (!ls_strategy_stores(model->strategy)) return LS_OWNED_BY_ALL;
    return blob ? LS_OWNED_IN_STRIPES : LS_OWNED_WITH_COPIES;
}

static struct ls_shard_part *add_part(ls_model *model, enum ls_owners owners, int blob, int table, size_t count) {
    struct ls_shard_part *part = &model->built.state[model->built.state_count++];
    *part = (struct ls_shard_part){owners, LS_FROM_PROGRAM, blob, table, count, NULL, LS_PART_NOWHERE};
    return part;
}

ls_status ls_model_state_list(ls_model *model) {
    const struct ls_network *network = model->built.network;
    int blobs = 1 + moments(model), tables = ls_network_table_count(network);
    size_t summed = model->built.summed_count;
    LS_NEW_ARRAY(struct ls_shard_part, parts, (size_t)blobs * (1 + (size_t)tables) + 1, "a list of parts");
    model->built.state = parts;
    for (int b = 0; b < blobs; b++)
        (void)add_part(model, owners_of(model, b), b, -1, b ? summed : model->built.blob_count);
    for (int b = 0; b < blobs; b++)
        for (int t = 0; t < tables; t++)
            (void)add_part(model, LS_OWNED_IN_ROWS, b, t, ls_network_table(network, t)->count);
    if (!(model->strategy->local.outer_momentum > 0)) return LS_OK;
    float **outer = &add_part(model, LS_OWNED_BY_ALL, blobs, -1, summed)->copy;
    *outer = ls_alloc_aligned(summed * sizeof(float));
    return *outer ? LS_OK : ls_fail_memory("the outer momentum", summed * sizeof(float));
}

struct ls_shard_part *ls_model_state_table(const ls_model *model, int table, int blob) {
    size_t tables = (size_t)ls_network_table_count(model->built.network);
    return &model->built.state[ls_part_of_table(moments(model), tables, (size_t)table, blob)];
}

float *ls_model_state_outer(const ls_model *model) {
    const struct ls_shard_part *last = &model->built.state[model->built.state_count - 1];
    return last->blob > moments(model) ? last->copy : NULL;
}

/* Variables that are not trained have no moments, and stand behind the others. */
static const struct ls_network_variable *find_variable(const struct ls_network *network,
                                                       const struct ls_shard_part *part, int index) {
    if (part->table >= 0) return index ? NULL : ls_network_table(network, part->table);
    if (index >= ls_network_variable_count(network)) return NULL;
    const struct ls_network_variable *variable = ls_network_variable(network, index);
    return part->blob && !variable->trained ? NULL : variable;
}

bool ls_model_state_next(const ls_model *model, unsigned owners, struct ls_model_state_place *place) {
    const struct ls_shard_part *end = model->built.state + model->built.state_count;
    if (!place->part) place->part = model->built.state;
    for (; place->part < end; place->part++, place->next = 0) {
        if (!(place->part->owners & owners)) continue;
        place->variable = find_variable(model->built.network, place->part, place->next++);
        place->offset = place->variable && place->part->table < 0 ? place->variable->offset : 0;
        if (place->variable) return true;
        place->begin += place->part->count;
    }
    return false;
}

void ls_model_state_name(const ls_model *model, int blob, const char *variable, char *name, size_t size) {
    if (blob > moments(model))
        (void)snprintf(name, size, "outer_momentum/%s", variable);
    else if (blob)
        (void)snprintf(name, size, "optimizer/moment_%d/%s", blob, variable);
    else
        (void)snprintf(name, size, "%s", variable);
}

size_t ls_model_state_count(const ls_model *model, unsigned owners) {
    return ls_parts_floats(model->built.state, model->built.state_count, owners);
}

ls_status ls_model_state_copy_out(const ls_model *model, const float *blob, size_t offset, size_t count, float **copy) {
    struct ls_device *device = model->built.replicas[0].device;
    ls_status status = ls_staged_check(model, false);
    if (status) return status;
    LS_CLEANUP(ls_free_pointer) float *made = ls_alloc_aligned(count * sizeof(*made));
    if (!made) return ls_fail_memory("a copy of variables", count * sizeof(*made));
    status = device->ops->copy_out(device, made, blob + offset, count * sizeof(*made));
    if (!status) *copy = ls_steal(made);
    return status;
}

bool ls_model_state_is_here(const ls_model *model) {
    return ls_staged_is_here(model, true) &&
           ls_parts_are_here(model->built.state, model->built.state_count, model->progress.step.iteration);
}

static ls_status refuse_away(const ls_model *model, const struct ls_shard_part *part) {
    return ls_fail(LS_FAILED_PRECONDITION, "the %s after step %lld are on the %s",
                   part->table < 0 ? "moments" : "tables", (long long)model->progress.step.iteration,
                   part->owners == LS_OWNED_BY_WORKERS ? "workers that own them" : "parameter servers");
}

static ls_status get_part(const ls_model *model, const struct ls_shard_part *part, float *values) {
    const struct ls_model_replica *first = &model->built.replicas[0];
    size_t size = part->count * sizeof(*values);
    ls_status status = ls_staged_check(model, part->blob > 0);
    if (status) return status;
    if (!ls_parts_are_here(part, 1, model->progress.step.iteration)) return refuse_away(model, part);
    if (ls_part_is_on_devices(part))
        return first->device->ops->copy_out(first->device, values, first->blobs[part->blob], size);
    memcpy(values, part->copy, size);
    return LS_OK;
}

static ls_status set_part(ls_model *model, struct ls_shard_part *part, enum ls_origin origin, const float *values) {
    ls_status status = LS_OK;
    if (origin > part->origin) part->origin = origin;
    if (!ls_part_is_on_devices(part)) return ls_part_set(part, values);
    for (int i = 0; !status && i < model->strategy->local_count; i++) {
        const struct ls_model_replica *replica = &model->built.replicas[i];
        if (replica->shares) continue;
        status = replica->device->ops->copy_in(replica->device, replica->blobs[part->blob], values,
                                               part->count * sizeof(*values));
    }
    return status;
}

ls_status ls_model_state_get(const ls_model *model, unsigned owners, float *state) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < model->built.state_count && !status; i++) {
        const struct ls_shard_part *part = &model->built.state[i];
        if (!(part->owners & owners)) continue;
        status = get_part(model, part, state);
        state += part->count;
    }
    return status;
}

ls_status ls_model_state_set(ls_model *model, unsigned owners, enum ls_origin origin, const float *state) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < model->built.state_count && !status; i++) {
        struct ls_shard_part *part = &model->built.state[i];
        if (!(part->owners & owners)) continue;
        status = set_part(model, part, origin, state);
        if (state) state += part->count;
    }
    return status;
}

ls_status ls_model_state_get_parameters(const ls_model *model, float *parameters) {
    ls_status status = ls_sparse_refuse(model, "a copy of all variables");
    return status ? status : get_part(model, &model->built.state[0], parameters);
}

ls_status ls_model_state_set_parameters(ls_model *model, const float *parameters) {
    return set_part(model, &model->built.state[0], LS_FROM_PROGRAM, parameters);
}

struct ls_training_progress ls_model_state_progress(const ls_model *model) {
    return (struct ls_training_progress){.step = model->progress.step.iteration,
                                         .learning_rate = model->progress.step.rule.learning_rate,
                                         .last_rate = model->progress.step.last_rate,
                                         .epoch_rate = model->progress.epoch_rate,
                                         .scaler = model->progress.scaler,
                                         .requests = model->progress.requests};
}

void ls_model_state_set_progress(ls_model *model, const struct ls_training_progress *progress) {
    model->progress.step.iteration = progress->step;
    model->progress.step.rule.learning_rate = progress->learning_rate;
    model->progress.step.last_rate = progress->last_rate;
    model->progress.epoch_rate = progress->epoch_rate;
    model->progress.scaler = progress->scaler;
    model->progress.requests = progress->requests;
}

float ls_model_state_changed_rate(const ls_model *model) {
    float rate = model->progress.step.rule.learning_rate;
    bool scheduled = !ls_rate_schedule_is_constant(&model->progress.step.rule.schedule);
    return scheduled || rate == model->spec.compiled_rate ? 0 : rate;
}
