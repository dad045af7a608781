/* A distributed iterator for custom loops: the pipeline of fit, with a buffer for each local replica
 * (tf.distribute's experimental_distribute_dataset). */
#include "strategy/iterator.h"

#include <stdio.h>

#include "base/new.h"
#include "base/shape.h"
#include "base/need.h"
#include "data/dataset.h"
#include "data/pipeline.h"
#include "strategy/elastic_state.h"
#include "strategy/stages.h"
#include "strategy/strategy.h"

struct ls_iterator {
    struct ls_pipeline *pipeline;
    ls_strategy *strategy;
    ls_dataset *dataset; /* borrowed */
    int layout;          /* the strategy's that pipeline and buffers are for */
    struct position {
        int64_t epoch, step;
    } position;        /* that the next call goes to */
    ls_dataset *own;   /* owns a function's dataset; NULL if dataset is the same on all workers */
    int64_t *examples; /* owns: how many each worker's own dataset has */
    int workers;       /* of examples */
    char *lines;       /* owns: what must be equal on all workers; NULL once it is known to be */
    bool valid;        /* the pipeline stands at a step */
    int local_count;
    float *features[LS_MAX_LOCAL_DEVICES];
    struct ls_targets targets[LS_MAX_LOCAL_DEVICES];
};

int ls_iterator_portions(const ls_strategy *strategy) {
    return ls_runtime_is_scaled(strategy->runtime) ? strategy->base_count : 1;
}

/* A wrong label makes classes that nobody has. */
static void warn_of_classes(const ls_strategy *strategy, const struct ls_source *source) {
    if (!source->occurring || source->classes < 2 * source->occurring) return;
    ls_log_warning(&strategy->runtime->log,
                   "data: %s: %d classes, %lld of which occur: example %lld has label %d; is it a class?", source->kind,
                   source->classes, (long long)source->occurring, (long long)source->greatest_at, source->classes - 1);
}

static ls_status ask_abort(void *context) {
    return ls_abort_raised(context) ? ls_abort_status(context) : LS_OK;
}

/* A device that computes behind its threads; NULL if none does. */
static struct ls_device *find_far(const ls_strategy *strategy) {
    for (int i = 0; i < strategy->local_count; i++)
        if (!strategy->replicas[i].device->host_memory) return strategy->replicas[i].device;
    return NULL;
}

/* One device pins for all. Copies from memory that it cannot pin take longer. */
static void pin(void *context, void *memory, size_t size) {
    struct ls_device *device = find_far(context);
    if (device) (void)device->ops->queue->pin(device, memory, size);
}

static void unpin(void *context, void *memory) {
    const ls_strategy *strategy = context;
    struct ls_device *device = find_far(strategy);
    for (int i = 0; i < strategy->local_count; i++) ls_device_drain(strategy->replicas[i].device);
    if (device) device->ops->queue->unpin(device, memory);
}

/* Asynchronous workers have whole batches, whoever takes which. */
static struct ls_pipeline_config config_alone(const ls_strategy *strategy, struct ls_pipeline_config config) {
    config.num_replicas = strategy->local_count;
    config.first_replica = config.worker = 0;
    config.num_workers = 1;
    config.portions = config.taken = 0;
    return config;
}

/* All workers of a pipeline of stages have the batches of its replica. */
static struct ls_pipeline_config config_staged(const ls_strategy *strategy, struct ls_pipeline_config config) {
    config.num_replicas = config.num_workers = ls_stages_replicas(strategy);
    config.first_replica = config.worker = ls_stages_replica(strategy);
    return config;
}

typedef struct ls_pipeline_config config_fn(const ls_strategy *strategy, struct ls_pipeline_config config);

/* config has the dataset, and may have own_examples and class_weight. as: where workers do not have the replicas'
 * parts; NULL: they do. */
static ls_status open_with(const ls_strategy *strategy, struct ls_pipeline_config config, config_fn *as,
                           struct ls_pipeline **pipeline) {
    const ls_dataset *dataset = config.dataset;
    bool scaled = ls_runtime_is_scaled(strategy->runtime);
    if ((dataset->options.division == LS_DIVIDE_TENSORFLOW || config.own_examples) &&
        ls_runtime_is_elastic(strategy->runtime))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "division TENSORFLOW needs as many replicas on every worker, which elastic does not keep: use "
                       "LAYOUT_INVARIANT, or leave LOCKSTEP_ELASTIC away");
    config.num_replicas = strategy->total_count;
    config.first_replica = strategy->replicas[0].id;
    config.local_replicas = strategy->local_count;
    config.worker = strategy->runtime->rank;
    config.num_workers = strategy->runtime->size;
    config.portions = scaled ? strategy->base_count : 0;
    config.taken = scaled ? strategy->total_count : 0;
    config.timeout_seconds = strategy->runtime->settings.data_timeout;
    config.interrupt = (struct ls_read_interrupt){ask_abort, strategy->runtime->abort, &strategy->runtime->activity};
    char text[512];
    if (!config.own_examples && find_far(strategy))
        config.memory = (struct ls_read_memory){pin, unpin, (void *)strategy};
    if (as) config = as(strategy, config);
    ls_status status = ls_pipeline_new(&config, pipeline);
    if (status) return status;
    ls_pipeline_describe(*pipeline, text, sizeof(text));
    ls_runtime_tell(strategy->runtime, "data: %s", text);
    if (strategy->runtime->rank == 0) warn_of_classes(strategy, dataset->source);
    return LS_OK;
}

ls_status ls_iterator_open_pipeline(const ls_strategy *strategy, const ls_dataset *dataset,
                                    const ls_class_weight *class_weight, struct ls_pipeline **pipeline) {
    return open_with(strategy, (struct ls_pipeline_config){.dataset = dataset, .class_weight = class_weight}, NULL,
                     pipeline);
}

ls_status ls_iterator_open_alone(const ls_strategy *strategy, const ls_dataset *dataset,
                                 const ls_class_weight *class_weight, struct ls_pipeline **pipeline) {
    return open_with(strategy, (struct ls_pipeline_config){.dataset = dataset, .class_weight = class_weight},
                     config_alone, pipeline);
}

ls_status ls_iterator_open_staged(const ls_strategy *strategy, const ls_dataset *dataset,
                                  const ls_class_weight *class_weight, struct ls_pipeline **pipeline) {
    return open_with(strategy, (struct ls_pipeline_config){.dataset = dataset, .class_weight = class_weight},
                     config_staged, pipeline);
}

static void free_buffers(ls_iterator *iterator) {
    for (int i = 0; i < iterator->local_count; i++) {
        ls_free(ls_steal(iterator->features[i]));
        ls_targets_free(&iterator->targets[i]);
    }
}

static ls_status allocate_buffers(ls_iterator *iterator) {
    ls_shape shape = ls_dataset_shape(iterator->dataset);
    size_t rows = (size_t)ls_pipeline_max_rows(iterator->pipeline), width = (size_t)ls_shape_count(&shape);
    for (int i = 0; i < iterator->local_count; i++) {
        iterator->features[i] = ls_alloc_aligned(rows * width * sizeof(float));
        if (!iterator->features[i]) return ls_fail_memory("batches", rows * width * sizeof(float));
        ls_status status =
            ls_targets_new(ls_pipeline_targets(iterator->pipeline), (int64_t)rows, &iterator->targets[i]);
        if (status) return status;
    }
    return LS_OK;
}

/* A restarted worker must bring as many examples as before. */
static ls_status check_own(const ls_iterator *iterator) {
    const struct ls_runtime *runtime = iterator->strategy->runtime;
    int64_t count = ls_dataset_count(iterator->own);
    if (iterator->workers == runtime->size && iterator->examples[runtime->rank] == count) return LS_OK;
    return ls_fail(LS_FAILED_PRECONDITION,
                   "the dataset that the function has made has %lld examples, on %d workers; it had %lld, on %d",
                   (long long)count, runtime->size,
                   (long long)(runtime->rank < iterator->workers ? iterator->examples[runtime->rank] : 0),
                   iterator->workers);
}

/* Opens the pipeline again if the worker's replicas have changed. */
static ls_status open_pipeline(ls_iterator *iterator) {
    const ls_strategy *strategy = iterator->strategy;
    if (iterator->pipeline && iterator->layout == strategy->layout) return LS_OK;
    ls_pipeline_free(ls_steal(iterator->pipeline));
    free_buffers(iterator);
    iterator->layout = strategy->layout;
    iterator->local_count = strategy->local_count;
    ls_status status = iterator->own ? check_own(iterator) : LS_OK;
    const struct ls_pipeline_config config = {.dataset = iterator->dataset, .own_examples = iterator->examples};
    if (!status) status = open_with(strategy, config, NULL, &iterator->pipeline);
    return status ? status : allocate_buffers(iterator);
}

static ls_status add_position(ls_iterator *iterator, const char *lines) {
    char name[LS_REGISTERED_NAME];
    ls_elastic_state_name(iterator->strategy, "iterator", name);
    const struct ls_registration registration = {name, lines, &iterator->position, sizeof(iterator->position), true};
    return ls_elastic_state_add(iterator->strategy, &registration);
}

ls_status ls_iterator_new(ls_strategy *strategy, ls_dataset *dataset, ls_iterator **iterator) {
    LS_NEED(strategy, dataset, iterator);
    LS_NEW(ls_iterator, made, "an iterator");
    made->strategy = strategy;
    made->dataset = dataset;
    ls_status status = ls_dataset_describe(dataset, &made->lines);
    if (!status) status = open_pipeline(made);
    if (!status) status = add_position(made, made->lines);
    return LS_HAND_OVER(status, iterator, made, ls_iterator_free(made));
}

void ls_iterator_free(ls_iterator *iterator) {
    if (!iterator) return;
    ls_elastic_state_remove(iterator->strategy, &iterator->position);
    if (iterator->examples) ls_elastic_state_remove(iterator->strategy, iterator->examples);
    free_buffers(iterator);
    ls_pipeline_free(iterator->pipeline);
    ls_free(iterator->examples);
    ls_free(iterator->lines);
    ls_dataset_free(iterator->own);
    ls_free(iterator);
}

ls_status ls_get_per_replica_batch_size(const ls_input_context *input, int64_t global, int64_t *size) {
    LS_NEED(input, size);
    int replicas = input->num_replicas_in_sync;
    if (global < 1 || replicas < 1 || global % replicas)
        return ls_fail(LS_INVALID_ARGUMENT, "a global batch of %lld cannot be divided over %d replicas alike",
                       (long long)global, replicas);
    *size = global / replicas;
    return LS_OK;
}

/* Describes the options that must be equal on all workers, though each has its own examples. */
static void describe_own(const ls_dataset *dataset, char *lines, size_t size) {
    char shape[128], targets[160];
    ls_shape_text(&dataset->shape, shape, sizeof(shape));
    ls_target_text(&dataset->targets, targets, sizeof(targets));
    (void)snprintf(lines, size, "shape=%s\nclasses=%d\ntargets=%s\nbatch_size=%lld\nrepeat=%lld\ndrop_remainder=%s\n",
                   shape, ls_dataset_num_classes(dataset), targets, (long long)dataset->options.batch_size,
                   (long long)dataset->options.repeat, dataset->options.drop_remainder ? "yes" : "no");
}

/* Exchanges the counts of all workers. The others' state, which restore brings, replaces the exchange. */
static ls_status count_examples(ls_iterator *iterator, const char *lines) {
    struct ls_runtime *runtime = iterator->strategy->runtime;
    iterator->workers = runtime->size;
    iterator->examples = ls_alloc_array((size_t)iterator->workers, sizeof(*iterator->examples));
    if (!iterator->examples) return ls_fail_memory("an iterator", (size_t)iterator->workers * sizeof(int64_t));
    if (runtime->inherited[LS_STATE_LOOP].data) return LS_OK;
    ls_status status = ls_runtime_agree(runtime, "dataset", lines);
    if (status) return status;
    return ls_runtime_exchange(runtime, "dataset examples", ls_dataset_count(iterator->own), iterator->examples);
}

static ls_status add_examples(ls_iterator *iterator) {
    char name[LS_REGISTERED_NAME];
    ls_elastic_state_name(iterator->strategy, "examples of iterator", name);
    const struct ls_registration registration = {
        .name = name, .data = iterator->examples, .size = (size_t)iterator->workers * sizeof(*iterator->examples)};
    return ls_elastic_state_add(iterator->strategy, &registration);
}

static ls_status begin_own(ls_iterator *iterator) {
    ls_strategy *strategy = iterator->strategy;
    char lines[512];
    describe_own(iterator->own, lines, sizeof(lines));
    ls_status status = count_examples(iterator, lines);
    if (!status && !strategy->runtime->inherited[LS_STATE_LOOP].data) status = open_pipeline(iterator);
    if (!status) status = add_position(iterator, lines);
    return status ? status : add_examples(iterator);
}

ls_status ls_iterator_from_function(ls_strategy *strategy, ls_dataset_fn *fn, void *context, ls_iterator **iterator) {
    LS_NEED(strategy, fn, iterator);
    const struct ls_runtime *runtime = strategy->runtime;
    const ls_input_context input = {runtime->size, runtime->rank, strategy->total_count};
    LS_NEW(ls_iterator, made, "an iterator");
    made->strategy = strategy;
    ls_status status = fn(context, &input, &made->own);
    made->dataset = made->own;
    if (!status && !made->own) status = ls_fail(LS_INVALID_ARGUMENT, "ls_iterator_from_function: fn made no dataset");
    if (!status) status = begin_own(made);
    return LS_HAND_OVER(status, iterator, made, ls_iterator_free(made));
}

/* Compares the workers' datasets at the first read, since a loss at the making could not be recovered from. A committed
 * iterator was compared before. */
static ls_status agree_on_position(ls_iterator *iterator) {
    const ls_strategy *strategy = iterator->strategy;
    bool known = !iterator->lines || ls_elastic_state_has(strategy, &iterator->position);
    ls_status status = known ? LS_OK : ls_runtime_agree(strategy->runtime, "dataset", iterator->lines);
    if (!status) ls_free(ls_steal(iterator->lines));
    return status;
}

ls_status ls_iterator_next(ls_iterator *iterator, bool *end) {
    LS_NEED(iterator, end);
    ls_status status = agree_on_position(iterator);
    if (!status) status = open_pipeline(iterator);
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
    LS_NEED(iterator, replica, batch);
    int local = replica->local_id;
    if (!iterator->valid)
        return ls_fail(LS_FAILED_PRECONDITION, "the iterator stands at no step: call ls_iterator_next");
    ls_status status =
        ls_pipeline_read(iterator->pipeline, local, iterator->features[local], &iterator->targets[local]);
    if (status) return status;
    *batch = (ls_batch){
        .rows = ls_pipeline_rows(iterator->pipeline, local),
        .global_rows = ls_pipeline_global_rows(iterator->pipeline),
        .features = iterator->features[local],
        .labels = iterator->targets[local].labels,
        .targets = iterator->targets[local].numbers,
        .weights = iterator->targets[local].weights,
    };
    return LS_OK;
}
