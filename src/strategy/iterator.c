/* A distributed iterator for custom loops: the pipeline of fit, with a buffer for each local replica
 * (tf.distribute's experimental_distribute_dataset). */
#include "base/dtype.h"
#include "base/memory.h"
#include "data/pipeline.h"
#include "strategy/strategy.h"

struct ls_iterator {
    struct ls_pipeline *pipeline;
    ls_strategy *strategy;
    ls_dataset *dataset; /* borrowed */
    int layout;          /* the strategy's that pipeline and buffers are for */
    struct position {
        int64_t epoch, step;
    } position; /* that the next call goes to */
    bool valid; /* the pipeline stands at a step */
    int local_count;
    float *features[LS_MAX_LOCAL_DEVICES];
    int32_t *labels[LS_MAX_LOCAL_DEVICES];
};

int ls_strategy_portions(const ls_strategy *strategy) {
    return ls_membership_is_scaled(strategy->membership) ? strategy->base_count : 1;
}

ls_status ls_strategy_open_pipeline(const ls_strategy *strategy, const ls_dataset *dataset,
                                    struct ls_pipeline **pipeline) {
    bool scaled = ls_membership_is_scaled(strategy->membership);
    if (dataset->options.division == LS_DIVIDE_TENSORFLOW && ls_membership_is_elastic(strategy->membership))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "division TENSORFLOW needs as many replicas on every worker, which elastic does not keep: use "
                       "LAYOUT_INVARIANT, or leave LOCKSTEP_ELASTIC away");
    const struct ls_pipeline_config config = {
        .dataset = dataset,
        .num_replicas = strategy->total_count,
        .first_replica = strategy->replicas[0].id,
        .local_replicas = strategy->local_count,
        .worker = strategy->membership->rank,
        .num_workers = strategy->membership->size,
        .portions = scaled ? strategy->base_count : 0,
        .taken = scaled ? strategy->total_count : 0,
    };
    char text[512];
    ls_status status = ls_pipeline_new(&config, pipeline);
    if (status) return status;
    ls_pipeline_describe(*pipeline, text, sizeof(text));
    ls_log_info(&strategy->membership->log, "data: %s", text);
    return LS_OK;
}

static void free_buffers(ls_iterator *iterator) {
    for (int i = 0; i < iterator->local_count; i++) {
        ls_free(ls_steal(iterator->features[i]));
        ls_free(ls_steal(iterator->labels[i]));
    }
}

static ls_status allocate_buffers(ls_iterator *iterator) {
    ls_shape shape = ls_dataset_shape(iterator->dataset);
    size_t rows = (size_t)ls_pipeline_max_rows(iterator->pipeline), width = (size_t)ls_shape_count(&shape);
    for (int i = 0; i < iterator->local_count; i++) {
        iterator->features[i] = ls_alloc_aligned(rows * width * sizeof(float));
        iterator->labels[i] = ls_alloc_aligned(rows * sizeof(int32_t));
        if (!iterator->features[i] || !iterator->labels[i])
            return ls_fail_memory("batches", rows * width * sizeof(float));
    }
    return LS_OK;
}

/* Anew where other replicas have come to this worker. */
static ls_status open_pipeline(ls_iterator *iterator) {
    const ls_strategy *strategy = iterator->strategy;
    if (iterator->pipeline && iterator->layout == strategy->layout) return LS_OK;
    ls_pipeline_free(ls_steal(iterator->pipeline));
    free_buffers(iterator);
    iterator->layout = strategy->layout;
    iterator->local_count = strategy->local_count;
    ls_status status = ls_strategy_open_pipeline(strategy, iterator->dataset, &iterator->pipeline);
    return status ? status : allocate_buffers(iterator);
}

ls_status ls_iterator_new(ls_strategy *strategy, ls_dataset *dataset, ls_iterator **iterator) {
    ls_iterator *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("an iterator", sizeof(*made));
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    made->strategy = strategy;
    made->dataset = dataset;
    ls_status status = ls_dataset_describe(dataset, &lines);
    /* who was started anew compares it with the state of the others */
    if (!status && !strategy->membership->inherited.data)
        status = ls_membership_agree(strategy->membership, "dataset", lines);
    if (!status) status = open_pipeline(made);
    if (!status) status = ls_committed_add(strategy, "iterator", lines, &made->position, sizeof(made->position));
    if (status)
        ls_iterator_free(made);
    else
        *iterator = made;
    return status;
}

void ls_iterator_free(ls_iterator *iterator) {
    if (!iterator) return;
    ls_committed_remove(iterator->strategy, &iterator->position);
    free_buffers(iterator);
    ls_pipeline_free(iterator->pipeline);
    ls_free(iterator);
}

ls_status ls_iterator_next(ls_iterator *iterator, bool *end) {
    ls_status status = open_pipeline(iterator);
    if (status) return status;
    iterator->valid = iterator->position.step < ls_pipeline_steps(iterator->pipeline);
    if (!iterator->valid) {
        iterator->position.epoch++;
        iterator->position.step = 0;
        *end = true;
        return LS_OK;
    }
    status = ls_pipeline_seek(iterator->pipeline, iterator->position.epoch, iterator->position.step);
    if (status) return status;
    iterator->position.step += ls_pipeline_taken(iterator->pipeline);
    *end = false;
    return LS_OK;
}

ls_status ls_iterator_batch(ls_iterator *iterator, ls_replica *replica, ls_batch *batch) {
    int local = replica->local_id;
    if (!iterator->valid)
        return ls_fail(LS_FAILED_PRECONDITION, "the iterator stands at no step: call ls_iterator_next");
    ls_status status = ls_pipeline_read(iterator->pipeline, local, iterator->features[local], iterator->labels[local]);
    if (status) return status;
    *batch = (ls_batch){
        .rows = ls_pipeline_rows(iterator->pipeline, local),
        .global_rows = ls_pipeline_global_rows(iterator->pipeline),
        .features = iterator->features[local],
        .labels = iterator->labels[local],
    };
    return LS_OK;
}
