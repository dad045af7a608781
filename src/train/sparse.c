/* All sparse tables of a model have the same ids, the model's features: a replica's part of a step is one list of ids,
 * and rows of each table beside. The replicas' lists lie side by side, for one call brings the rows of all. A list is
 * its replica's thread's until the replicas meet. */
#include "train/sparse.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/shape.h"
#include "cluster/cluster.h"
#include "data/dataset.h"
#include "model/network.h"
#include "store/store.h"
#include "strategy/strategy.h"
#include "train/model_state.h"

struct ls_sparse {
    struct ls_row_leaf *leaves;    /* [count] */
    struct ls_plan_rows *plans;    /* [count]; places, and the lists that leaves has too */
    int32_t **places;              /* [count] own */
    char (*errors)[LS_ERROR_SIZE]; /* [count] of the present batches */
    int count, tables;
};

/* ---- which ---- */

/* Bytes that workers move for a table: by servers 2u of the u rows that a worker touches, by an all-reduce that k
 * servers assist 4k(n - 1)/n^2 of all rows (docs/sparse.md). The ids of a batch are an upper bound of u. */
static bool decide(const ls_model *model, const ls_dataset *data, const ls_layer *layer) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    const struct ls_planned *planned = &model->strategy->planned;
    double ids = (double)(planned->workers ? planned->batch : data->options.batch_size);
    ids *= (double)ls_shape_count(&model->built.input);
    double fraction = ids / layer->input_dim, n = planned->workers ? planned->workers : runtime->tasks;
    double k = planned->workers ? planned->servers : runtime->config->num_servers;
    double limit = 2 * k * (n - 1) / (n * n);
    if (limit > 1) limit = 1;
    bool sparse = model->strategy->sparse == LS_SPARSE_ALWAYS ||
                  (model->strategy->sparse == LS_SPARSE_BY_RULE && fraction < limit);
    ls_runtime_tell(runtime,
                    "an embedding of %d rows is %s: a batch has %.0f ids, %.3g of the rows, and the limit for %.0f "
                    "workers and %.0f servers is %.3g%s",
                    layer->input_dim, sparse ? "sparse, its rows are on the servers alone" : "dense", ids, fraction, n,
                    k, limit, model->strategy->sparse ? " (ls_parameter_server_options.sparse decides)" : "");
    return sparse;
}

ls_status ls_sparse_network(const ls_model *model, const ls_dataset *data, struct ls_network **network) {
    size_t count = model->spec.layer_count;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(ls_layer, layers, count, "layers");
    memcpy(layers, model->spec.layers, count * sizeof(*layers));
    bool may = model->strategy->copies_on_servers || model->strategy->planned.workers;
    for (size_t i = 0; i < count; i++)
        if (layers[i].sparse) layers[i].sparse = may && !layers[i].frozen && decide(model, data, &layers[i]);
    return ls_network_new(layers, count, &model->built.input, network);
}

bool ls_sparse_has(const ls_model *model) {
    return model->built.network && ls_network_table_count(model->built.network);
}

ls_status ls_sparse_refuse(const ls_model *model, const char *what) {
    if (!ls_sparse_has(model)) return LS_OK;
    return ls_fail(
        LS_UNIMPLEMENTED,
        "%s: the rows of '%s' are on the parameter servers alone; fit with a checkpoint folder brings them to "
        "rank 0, or take ls_parameter_server_options.sparse = LS_SPARSE_NEVER",
        what, ls_network_table(model->built.network, 0)->name);
}

const float *ls_sparse_here(const ls_model *model, int table) {
    const struct ls_shard_part *part = ls_model_state_table(model, table, 0);
    return ls_parts_are_here(part, 1, model->progress.step.iteration) ? part->copy : NULL;
}

ls_status ls_sparse_need(const ls_model *model, const char *what) {
    return ls_sparse_has(model) && ls_sparse_here(model, 0) ? LS_OK : ls_sparse_refuse(model, what);
}

ls_status ls_sparse_check(const ls_model *model) {
    const ls_optimizer *rule = &model->progress.step.rule;
    const char *what = rule->kind == LS_OPTIMIZER_LAMB         ? "the optimizer lamb"
                       : rule->clipnorm > 0                    ? "clipnorm"
                       : rule->global_clipnorm > 0             ? "global_clipnorm"
                       : rule->gradient_accumulation_steps > 1 ? "gradient_accumulation_steps"
                                                               : NULL;
    if (!ls_sparse_has(model) || !what) return LS_OK;
    return ls_fail(LS_UNIMPLEMENTED,
                   "%s needs all rows of '%s' in each step, whose table is sparse: leave it out, or take "
                   "ls_parameter_server_options.sparse = LS_SPARSE_NEVER",
                   what, ls_network_table(model->built.network, 0)->name);
}

/* ---- for the servers ---- */

ls_status ls_sparse_terms(const ls_model *model, struct ls_terms_table **tables) {
    int count = ls_network_table_count(model->built.network);
    struct ls_terms_table *made = ls_alloc_array((size_t)count + 1, sizeof(*made));
    if (!made) return ls_fail_memory("tables", (size_t)count * sizeof(*made));
    for (int t = 0; t < count; t++) {
        const struct ls_network_variable *variable = ls_network_table(model->built.network, t);
        made[t] = (struct ls_terms_table){.rows = variable->shape.dims[0],
                                          .width = variable->shape.dims[1],
                                          .fill = ls_initializer_fill(variable, model->spec.seed),
                                          .decays = ls_optimizer_decays(&model->progress.step.rule, variable),
                                          .rate = variable->rate};
    }
    *tables = made;
    return LS_OK;
}

ls_status ls_sparse_draw(const ls_model *model) {
    int tables = ls_network_table_count(model->built.network);
    size_t blobs = 1 + (size_t)ls_optimizer_moments(&model->progress.step.rule);
    ls_status status = ls_parts_expect(ls_model_state_table(model, 0, 0), blobs * (size_t)tables);
    for (int t = 0; t < tables && !status; t++)
        ls_initializer_apply(ls_network_table(model->built.network, t), model->spec.seed,
                             ls_model_state_table(model, t, 0)->copy);
    return status;
}

/* ---- rows ---- */

static void free_replica(struct ls_sparse *sparse, int local) {
    struct ls_plan_rows *plan = &sparse->plans[local];
    for (int t = 0; t < sparse->tables && plan->parameters && plan->gradients; t++) {
        ls_free(plan->parameters[t]);
        ls_free(plan->gradients[t]);
    }
    ls_free(plan->parameters);
    ls_free(plan->gradients);
    ls_free(sparse->places[local]);
    ls_free(sparse->leaves[local].ids);
}

void ls_sparse_release(ls_model *model) {
    struct ls_sparse *sparse = ls_steal(model->built.sparse);
    if (!sparse) return;
    for (int i = 0; i < sparse->count; i++) free_replica(sparse, i);
    ls_free(sparse->leaves);
    ls_free(sparse->plans);
    ls_free(sparse->places);
    ls_free(sparse->errors);
    ls_free(sparse);
}

static ls_status reserve_rows(const ls_model *model, struct ls_sparse *sparse, int local, size_t ids) {
    struct ls_plan_rows *plan = &sparse->plans[local];
    size_t floats = 0, tables = (size_t)sparse->tables;
    plan->parameters = ls_alloc_array(tables, sizeof(*plan->parameters));
    plan->gradients = ls_alloc_array(tables, sizeof(*plan->gradients));
    plan->places = sparse->places[local] = ls_alloc_aligned(ids * sizeof(int32_t));
    sparse->leaves[local] =
        (struct ls_row_leaf){ls_alloc_array(ids, sizeof(int32_t)), 0, plan->parameters, plan->gradients, 0};
    bool there = plan->parameters && plan->gradients && plan->places && sparse->leaves[local].ids;
    for (int t = 0; t < sparse->tables && there; t++) {
        size_t size = ids * (size_t)ls_network_table(model->built.network, t)->shape.dims[1];
        plan->parameters[t] = ls_alloc_aligned(size * sizeof(float));
        plan->gradients[t] = ls_alloc_aligned(size * sizeof(float));
        there = plan->parameters[t] && plan->gradients[t];
        floats += 2 * size;
    }
    return there ? LS_OK : ls_fail_memory("rows of tables", floats * sizeof(float));
}

size_t ls_sparse_bytes(const ls_model *model, int64_t rows) {
    size_t floats = 0, tables = (size_t)ls_network_table_count(model->built.network);
    for (size_t t = 0; t < tables; t++) floats += (size_t)ls_network_table(model->built.network, (int)t)->shape.dims[1];
    return (size_t)rows * (size_t)ls_shape_count(&model->built.input) * 2 *
           (floats * sizeof(float) + (tables ? sizeof(int32_t) : 0));
}

ls_status ls_sparse_reserve(ls_model *model, int64_t rows) {
    size_t count = (size_t)model->strategy->local_count;
    size_t ids = (size_t)rows * (size_t)ls_shape_count(&model->built.input);
    ls_sparse_release(model);
    if (!ls_sparse_has(model)) return LS_OK;
    LS_NEW(struct ls_sparse, made, "rows of tables");
    model->built.sparse = made;
    made->tables = ls_network_table_count(model->built.network);
    made->leaves = ls_alloc_array(count, sizeof(*made->leaves));
    made->plans = ls_alloc_array(count, sizeof(*made->plans));
    made->places = ls_alloc_array(count, sizeof(*made->places));
    made->errors = ls_alloc_array(count, sizeof(*made->errors));
    bool there = made->leaves && made->plans && made->places && made->errors;
    ls_status status = there ? LS_OK : ls_fail_memory("rows of tables", count * sizeof(*made->leaves));
    if (there) made->count = (int)count;
    for (int i = 0; i < made->count && !status; i++) status = reserve_rows(model, made, i, ids);
    if (status) ls_sparse_release(model);
    return status;
}

const struct ls_plan_rows *ls_sparse_plan(const ls_model *model, int local) {
    return model->built.sparse ? &model->built.sparse->plans[local] : NULL;
}

/* Nobody waits for rows where one replica's batch cannot be. */
static ls_status pull_all(ls_strategy *strategy, void *context) {
    const ls_model *model = context;
    const struct ls_sparse *sparse = model->built.sparse;
    for (int i = 0; i < strategy->local_count; i++)
        if (model->built.replicas[i].status)
            return ls_group_fail(ls_group_assisted(strategy->runtime->group),
                                 ls_fail(model->built.replicas[i].status, "replica %d: %s", strategy->replicas[i].id,
                                         sparse->errors[i]));
    return ls_store_pull_rows(model->bound.store, sparse->leaves, strategy->local_count);
}

/* By all local replicas, each with the status of its batch. Collective. */
static ls_status pull_rows(ls_model *model, int local, ls_status status) {
    struct ls_sparse *sparse = model->built.sparse;
    struct ls_model_replica *own = &model->built.replicas[local];
    int64_t rows = ls_pipeline_rows(model->progress.pipeline, local);
    const struct ls_tensor ids = ls_network_ids(model->built.network, own->inputs[own->input].features, rows);
    if (!status)
        status = ls_row_lists_unique(&ids, ls_store_servers(model->bound.store), &sparse->leaves[local],
                                     sparse->places[local]);
    if (status) (void)snprintf(sparse->errors[local], LS_ERROR_SIZE, "%s", ls_error());
    own->status = status;
    ls_status others = ls_replicas_meet(&model->strategy->replicas[local], pull_all, model);
    return status ? ls_fail(status, "%s", sparse->errors[local]) : others;
}

void ls_sparse_attach(ls_model *model) {
    if (ls_sparse_has(model)) model->bound.loaded = pull_rows;
}
