/* A distributed iterator for custom loops: the pipeline of fit, with a buffer for each local replica
 * (tf.distribute's experimental_distribute_dataset). */
#include <stdio.h>

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
    } position;        /* that the next call goes to */
    ls_dataset *own;   /* owns: of a function; NULL: dataset is the same on all workers */
    int64_t *examples; /* owns: how many each worker's own dataset has */
    int workers;       /* of examples */
    bool valid;        /* the pipeline stands at a step */
    int local_count;
    float *features[LS_MAX_LOCAL_DEVICES];
    int32_t *labels[LS_MAX_LOCAL_DEVICES];
};

int ls_strategy_portions(const ls_strategy *strategy) {
    return ls_membership_is_scaled(strategy->membership) ? strategy->base_count : 1;
}

/* own: of each worker, its own examples; NULL: all have the same. */
static ls_status open_with(const ls_strategy *strategy, const ls_dataset *dataset, const int64_t *own,
                           struct ls_pipeline **pipeline) {
    bool scaled = ls_membership_is_scaled(strategy->membership);
    if ((dataset->options.division == LS_DIVIDE_TENSORFLOW || own) && ls_membership_is_elastic(strategy->membership))
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
        .own_examples = own,
        .timeout_seconds = strategy->membership->settings.data_timeout,
    };
    char text[512];
    ls_status status = ls_pipeline_new(&config, pipeline);
    if (status) return status;
    ls_pipeline_describe(*pipeline, text, sizeof(text));
    ls_log_info(&strategy->membership->log, "data: %s", text);
    return LS_OK;
}

ls_status ls_strategy_open_pipeline(const ls_strategy *strategy, const ls_dataset *dataset,
                                    struct ls_pipeline **pipeline) {
    return open_with(strategy, dataset, NULL, pipeline);
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

/* Who was started anew must bring as many examples as before. */
static ls_status check_own(const ls_iterator *iterator) {
    const struct ls_membership *membership = iterator->strategy->membership;
    int64_t count = ls_dataset_count(iterator->own);
    if (iterator->workers == membership->size && iterator->examples[membership->rank] == count) return LS_OK;
    return ls_fail(LS_FAILED_PRECONDITION,
                   "the dataset that the function has made has %lld examples, on %d workers; it had %lld, on %d",
                   (long long)count, membership->size,
                   (long long)(membership->rank < iterator->workers ? iterator->examples[membership->rank] : 0),
                   iterator->workers);
}

/* Anew where other replicas have come to this worker. */
static ls_status open_pipeline(ls_iterator *iterator) {
    const ls_strategy *strategy = iterator->strategy;
    if (iterator->pipeline && iterator->layout == strategy->layout) return LS_OK;
    ls_pipeline_free(ls_steal(iterator->pipeline));
    free_buffers(iterator);
    iterator->layout = strategy->layout;
    iterator->local_count = strategy->local_count;
    ls_status status = iterator->own ? check_own(iterator) : LS_OK;
    if (!status) status = open_with(strategy, iterator->dataset, iterator->examples, &iterator->pipeline);
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
    if (iterator->examples) ls_committed_remove(iterator->strategy, iterator->examples);
    free_buffers(iterator);
    ls_pipeline_free(iterator->pipeline);
    ls_free(iterator->examples);
    ls_dataset_free(iterator->own);
    ls_free(iterator);
}

ls_status ls_get_per_replica_batch_size(const ls_input_context *input, int64_t global, int64_t *size) {
    int replicas = input->num_replicas_in_sync;
    if (global < 1 || replicas < 1 || global % replicas)
        return ls_fail(LS_INVALID_ARGUMENT, "a global batch of %lld cannot be divided over %d replicas alike",
                       (long long)global, replicas);
    *size = global / replicas;
    return LS_OK;
}

/* What must be equal on all workers, though each has its own examples. */
static void describe_own(const ls_dataset *dataset, char *lines, size_t size) {
    char shape[128];
    ls_shape_text(&dataset->shape, shape, sizeof(shape));
    (void)snprintf(lines, size, "shape=%s\nclasses=%d\nbatch_size=%lld\nrepeat=%lld\ndrop_remainder=%d\n", shape,
                   ls_dataset_num_classes(dataset), (long long)dataset->options.batch_size,
                   (long long)dataset->options.repeat, dataset->options.drop_remainder);
}

/* Of all workers, unless the state of the others, which restore brings, says it. */
static ls_status count_examples(ls_iterator *iterator, const char *lines) {
    struct ls_membership *membership = iterator->strategy->membership;
    iterator->workers = membership->size;
    iterator->examples = ls_alloc_array((size_t)iterator->workers, sizeof(*iterator->examples));
    if (!iterator->examples) return ls_fail_memory("an iterator", (size_t)iterator->workers * sizeof(int64_t));
    if (membership->inherited.data) return LS_OK;
    ls_status status = ls_membership_agree(membership, "dataset", lines);
    if (status) return status;
    return ls_membership_exchange(membership, "dataset examples", ls_dataset_count(iterator->own), iterator->examples);
}

static ls_status begin_own(ls_iterator *iterator) {
    ls_strategy *strategy = iterator->strategy;
    char lines[512];
    describe_own(iterator->own, lines, sizeof(lines));
    ls_status status = count_examples(iterator, lines);
    if (!status && !strategy->membership->inherited.data) status = open_pipeline(iterator);
    if (!status)
        status = ls_committed_add(strategy, "iterator", lines, &iterator->position, sizeof(iterator->position));
    if (!status)
        status = ls_committed_add(strategy, "iterator examples", lines, iterator->examples,
                                  (size_t)iterator->workers * sizeof(*iterator->examples));
    return status;
}

ls_status ls_iterator_from_function(ls_strategy *strategy, ls_dataset_fn *fn, void *context, ls_iterator **iterator) {
    const struct ls_membership *membership = strategy->membership;
    const ls_input_context input = {membership->size, membership->rank, strategy->total_count};
    ls_iterator *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("an iterator", sizeof(*made));
    made->strategy = strategy;
    ls_status status = fn(context, &input, &made->own);
    made->dataset = made->own;
    if (!status) status = begin_own(made);
    if (status)
        ls_iterator_free(made);
    else
        *iterator = made;
    return status;
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
