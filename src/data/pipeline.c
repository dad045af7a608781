/* From positions to examples: order.c says in which order they come, division.c which rows of it a replica gets,
 * read_ahead.c reads them. A seek changes the pipeline; between seeks any number of threads may read. Mirrors tf.data's
 * shuffle, repeat, batch, prefetch and experimental_distribute_dataset. */
#include "data/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/shape.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/division.h"
#include "data/order.h"
#include "data/read_ahead.h"
#include "data/sources.h"
#include "base/plain.h"

struct ls_pipeline {
    const ls_dataset *dataset;           /* borrows */
    const ls_class_weight *class_weight; /* borrows */
    struct ls_target_kind targets;       /* the dataset's, with weights where classes have some */
    bool takes_classes, unlabelled;      /* of numbers; as of ls_pipeline_leave_targets */
    struct ls_division_plan plan;
    int64_t whole;   /* rows of a whole global batch, of which plan.batch may be a portion */
    int64_t *totals; /* owns; NULL if all workers have the same rows */
    int first_replica, local_replicas;
    int64_t steps, last_epoch;
    int threads;                 /* that read ahead */
    struct ls_order *order;      /* owns */
    struct ls_read_ahead *ahead; /* owns */
};

static ls_status check_replicas(const struct ls_pipeline_config *config) {
    int end;
    if (config->num_replicas < 1 || config->local_replicas < 1 || config->first_replica < 0 ||
        __builtin_add_overflow(config->first_replica, config->local_replicas, &end) || end > config->num_replicas)
        return ls_fail(LS_INVALID_ARGUMENT, "worker %d: %d replicas from %d on are not among 0 to %d", config->worker,
                       config->local_replicas, config->first_replica, config->num_replicas - 1);
    if (config->num_workers < 1 || config->worker < 0 || config->worker >= config->num_workers)
        return ls_fail(LS_INVALID_ARGUMENT, "worker %d is not among %d workers", config->worker, config->num_workers);
    return LS_OK;
}

/* TensorFlow's rule knows only workers of equal size. */
static ls_status check_tensorflow(const struct ls_pipeline_config *config) {
    if (config->dataset->options.division != LS_DIVIDE_TENSORFLOW && !config->own_examples) return LS_OK;
    int each = config->num_replicas / config->num_workers;
    if (config->num_replicas % config->num_workers == 0 && config->local_replicas == each &&
        config->first_replica == config->worker * each)
        return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "division TENSORFLOW needs as many replicas on every worker: worker %d has %d (from %d) of %d on %d "
                   "workers; use LAYOUT_INVARIANT, or give every worker the same number of devices",
                   config->worker, config->local_replicas, config->first_replica, config->num_replicas,
                   config->num_workers);
}

static ls_status check_portions(const struct ls_pipeline_config *config) {
    const ls_dataset_options *options = &config->dataset->options;
    if (!config->portions) return LS_OK;
    if (options->division == LS_DIVIDE_TENSORFLOW || config->own_examples)
        return ls_fail(LS_INVALID_ARGUMENT, "division TENSORFLOW knows no scaled batches: use LAYOUT_INVARIANT");
    if (options->batch_size % config->portions == 0) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "batch_size %lld is no multiple of the %d replicas at the start, so that it can not be scaled",
                   (long long)options->batch_size, config->portions);
}

/* The meaning of auto_shard for this source and so many workers. */
static ls_status choose_shard(const struct ls_pipeline_config *config, ls_auto_shard *shard) {
    const struct ls_source *source = config->dataset->source;
    ls_auto_shard asked = config->dataset->options.auto_shard;
    bool enough = source->files >= config->num_workers;
    if (config->own_examples) asked = LS_SHARD_OFF;
    if (asked == LS_SHARD_HINT && config->dataset->options.shard_hint == LS_HINT_FILES) asked = LS_SHARD_FILE;
    if (asked == LS_SHARD_AUTO) asked = enough && source->files ? LS_SHARD_FILE : LS_SHARD_DATA;
    if (asked == LS_SHARD_FILE && !enough && config->dataset->options.division == LS_DIVIDE_TENSORFLOW)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "auto_shard FILE needs a file for each of %d workers: the %s dataset has %lld; use DATA",
                       config->num_workers, source->kind, (long long)source->files);
    *shard = asked;
    return LS_OK;
}

static bool shards_files(const struct ls_pipeline *pipeline) {
    return pipeline->plan.rule == LS_DIVIDE_TENSORFLOW && pipeline->plan.shard == LS_SHARD_FILE;
}

/* In which blocks the rows of an epoch are dealt to the workers; 0: they are not. */
static int64_t dealt_block(const struct ls_pipeline *pipeline) {
    ls_shard_hint hint = pipeline->dataset->options.shard_hint;
    if (pipeline->plan.rule != LS_DIVIDE_TENSORFLOW || pipeline->plan.shard != LS_SHARD_HINT) return 0;
    return hint == LS_HINT_ROWS ? 1 : hint == LS_HINT_BATCHES ? pipeline->whole : 0;
}

static bool shards_examples(const struct ls_pipeline *pipeline) {
    bool hinted = pipeline->plan.shard == LS_SHARD_HINT && pipeline->dataset->options.shard_hint == LS_HINT_EXAMPLES;
    return shards_files(pipeline) || (pipeline->plan.rule == LS_DIVIDE_TENSORFLOW && hinted);
}

/* tf.data's shard(W, w) takes every W-th element from the w-th on: of files under FILE, of examples under the hint
 * EXAMPLES. Files are numbered in the order of the source, which skip does not change. */
static int worker_of(const struct ls_pipeline *pipeline, int64_t example) {
    const struct ls_source *source = pipeline->dataset->source;
    if (!shards_files(pipeline)) return (int)(example % pipeline->plan.num_workers);
    int64_t file = ls_source_file(source, pipeline->dataset->options.skip + example);
    return (int)(file % pipeline->plan.num_workers);
}

/* Deals sharded examples: this worker's own, and the number of each worker's. */
static ls_status deal_examples(struct ls_pipeline *pipeline, int worker, int64_t **examples, int64_t *counts) {
    int64_t all = pipeline->dataset->count, own = 0;
    for (int64_t i = 0; i < all; i++) counts[worker_of(pipeline, i)]++;
    *examples = ls_alloc_array((size_t)counts[worker] + 1, sizeof(**examples));
    if (!*examples) return ls_fail_memory("the numbers of the examples", (size_t)counts[worker] * sizeof(int64_t));
    for (int64_t i = 0; i < all; i++)
        if (worker_of(pipeline, i) == worker) (*examples)[own++] = i;
    return LS_OK;
}

/* Rows in an epoch of so many examples. */
static int64_t count_rows(const struct ls_pipeline *pipeline, int64_t examples) {
    const ls_dataset_options *options = &pipeline->dataset->options;
    int64_t rows = examples * options->repeat;
    return options->drop_remainder ? rows - rows % pipeline->whole : rows;
}

/* Of so many rows that are dealt in blocks: a worker's. A cycle gives each worker one block. rest is the part of the
 * last, incomplete cycle that lies behind this worker's block's begin, cut to [0, block]. */
static int64_t count_dealt(const struct ls_pipeline *pipeline, int64_t rows, int worker) {
    int64_t block = dealt_block(pipeline), cycle = block * pipeline->plan.num_workers;
    int64_t rest = rows % cycle - worker * block;
    return rows / cycle * block + (rest < 0 ? 0 : rest > block ? block : rest);
}

/* The rows of every worker, from how many examples it has where examples are sharded; total is the greatest. */
static ls_status count_totals(struct ls_pipeline *pipeline) {
    int64_t *totals = pipeline->totals, all = pipeline->plan.total;
    bool dealt = dealt_block(pipeline) > 0;
    pipeline->plan.total = 0;
    for (int i = 0; i < pipeline->plan.num_workers; i++) {
        totals[i] = dealt ? count_dealt(pipeline, all, i) : count_rows(pipeline, totals[i]);
        if (totals[i] > pipeline->plan.total) pipeline->plan.total = totals[i];
        if (!totals[i] && pipeline->plan.shard == LS_SHARD_HINT)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "auto_shard HINT leaves nothing to worker %d of %d: the %s dataset has %lld "
                           "examples, batch_size is %lld",
                           i, pipeline->plan.num_workers, pipeline->dataset->source->kind,
                           (long long)pipeline->dataset->count, (long long)pipeline->whole);
    }
    return LS_OK;
}

/* Plans this worker's examples (*count of them; *examples is NULL for all) and the rows of every worker. */
static ls_status plan_rows(struct ls_pipeline *pipeline, const struct ls_pipeline_config *config, int64_t **examples,
                           int64_t *count) {
    int workers = config->num_workers;
    *count = pipeline->dataset->count;
    pipeline->plan.total = count_rows(pipeline, *count);
    if (!shards_examples(pipeline) && !dealt_block(pipeline) && !config->own_examples) return LS_OK;
    pipeline->totals = ls_alloc_array((size_t)workers, sizeof(*pipeline->totals));
    if (!pipeline->totals) return ls_fail_memory("a plan", (size_t)workers * sizeof(int64_t));
    pipeline->plan.totals = pipeline->totals;
    if (config->own_examples)
        for (int i = 0; i < workers; i++) pipeline->totals[i] = config->own_examples[i];
    ls_status status = LS_OK;
    if (shards_examples(pipeline)) status = deal_examples(pipeline, config->worker, examples, pipeline->totals);
    if (!dealt_block(pipeline)) *count = pipeline->totals[config->worker];
    return status ? status : count_totals(pipeline);
}

static ls_status make_plan(struct ls_pipeline *pipeline, const struct ls_pipeline_config *config, int64_t **examples,
                           int64_t *count) {
    const ls_dataset_options *options = &pipeline->dataset->options;
    ls_division rule = config->own_examples ? LS_DIVIDE_TENSORFLOW : options->division;
    pipeline->whole = config->own_examples ? options->batch_size * config->num_replicas : options->batch_size;
    pipeline->plan = (struct ls_division_plan){.batch = pipeline->whole / (config->portions ? config->portions : 1),
                                               .stride = config->taken,
                                               .num_replicas = config->num_replicas,
                                               .num_workers = config->num_workers,
                                               .rule = rule};
    ls_status status = choose_shard(config, &pipeline->plan.shard);
    if (!status) status = plan_rows(pipeline, config, examples, count);
    if (status || pipeline->plan.total > 0) return status;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "batch_size %lld with drop_remainder leaves no batch: an epoch has %lld examples",
                   (long long)pipeline->whole, (long long)(*count * options->repeat));
}

/* Rows that are dealt out are those of one order, which all workers know; a worker's own examples have one of theirs.
 * The streams of workers with examples of their own lie 2^40 passes apart, so no two of them shuffle alike. longest:
 * where blocks are dealt, rows of one worker lie among those of num_workers, and may begin and end inside of a block.
 */
static ls_status make_order(struct ls_pipeline *pipeline, int worker, int64_t *examples, int64_t count) {
    const struct ls_division_plan *plan = &pipeline->plan;
    int64_t rows = ls_division_rows_a_step(plan), block = dealt_block(pipeline);
    int64_t longest = block ? (rows / block + 2) * block * plan->num_workers : rows;
    int64_t most = block ? count * pipeline->dataset->options.repeat : plan->total;
    const struct ls_order_config config = {
        .options = &pipeline->dataset->options,
        .examples = examples,
        .count = count ? count : 1,
        .longest = longest < most ? longest : most,
        .stream = ls_random_stream("data/shuffle") + (plan->totals && !block ? (uint64_t)worker << 40 : 0),
        .block = block,
        .worker = worker,
        .num_workers = plan->num_workers,
    };
    return ls_order_new(&config, &pipeline->order);
}

/* True if reading goes through files or functions of the user, which may hang. */
static bool may_hang(const ls_dataset *dataset) {
    for (int i = 0; i < dataset->maps.count; i++)
        if (dataset->maps.stages[i].kind == LS_MAP_FUNCTION) return true;
    return dataset->source->files > 0;
}

#define PIECE     (64 * 1024)   /* bytes of examples that a thread takes at once: a look at the lock is nothing then */
#define A_THREADS (1024 * 1024) /* bytes of a step that are worth a thread of their own */

/* Copying from memory is worth threads beside a device that computes behind its own ones, if it is much. */
static int threads_of(const struct ls_pipeline *pipeline, bool behind, int64_t bytes) {
    int threads = ls_dataset_threads(pipeline->dataset), most = ls_dataset_processors();
    if (threads || !behind || pipeline->dataset->options.workers < 0) return threads;
    return bytes / A_THREADS < most ? (int)(bytes / A_THREADS) : most;
}

/* Without reading ahead threads read the present step if it may hang, since threads can be left. */
static ls_status make_ahead(struct ls_pipeline *pipeline, const struct ls_pipeline_config *given) {
    const ls_dataset_options *options = &pipeline->dataset->options;
    int64_t rows = ls_pipeline_max_rows(pipeline) * pipeline->local_replicas;
    int64_t row = ls_shape_count(&pipeline->dataset->shape) * (pipeline->dataset->table ? 1 : (int64_t)sizeof(float));
    bool behind = given->memory.pin && options->workers >= 0, hangs = may_hang(pipeline->dataset);
    int ahead = threads_of(pipeline, behind, rows * row), threads = ahead;
    if (!ahead && given->timeout_seconds > 0 && hangs)
        threads = pipeline->local_replicas < LS_DATA_MAX_WORKERS ? pipeline->local_replicas : LS_DATA_MAX_WORKERS;
    const struct ls_read_ahead_config config = {
        .dataset = pipeline->dataset,
        .rows = rows,
        .local_replicas = pipeline->local_replicas,
        .threads = threads,
        .together = hangs || row > PIECE ? 1 : PIECE / row,
        .steps = ahead    ? options->prefetch + 1
                 : behind ? 2
                          : 1,
        .memory = given->memory,
        .timeout_seconds = given->timeout_seconds,
        .interrupt = given->interrupt,
    };
    pipeline->threads = ahead;
    return ls_read_ahead_new(&config, &pipeline->ahead);
}

static ls_status take_config(struct ls_pipeline *pipeline, const struct ls_pipeline_config *config) {
    int64_t *examples = NULL, count = 0;
    pipeline->dataset = config->dataset;
    pipeline->class_weight = config->class_weight;
    pipeline->targets = config->dataset->targets;
    if (config->class_weight) pipeline->targets.weighted = true;
    pipeline->first_replica = config->first_replica;
    pipeline->local_replicas = config->local_replicas;
    pipeline->last_epoch = INT64_MAX / config->dataset->options.repeat - 1;
    ls_status status = make_plan(pipeline, config, &examples, &count);
    if (status) {
        ls_free(examples);
        return status;
    }
    pipeline->steps = ls_division_steps(&pipeline->plan);
    status = make_order(pipeline, config->worker, examples, count);
    if (!status) status = make_ahead(pipeline, config);
    return status ? status : ls_pipeline_seek(pipeline, 0, 0);
}

ls_status ls_pipeline_new(const struct ls_pipeline_config *config, struct ls_pipeline **pipeline) {
    ls_status status = check_replicas(config);
    if (!status) status = check_tensorflow(config);
    if (!status) status = check_portions(config);
    if (!status && config->class_weight) status = ls_class_weight_check(config->class_weight, config->dataset);
    if (status) return status;
    LS_NEW(struct ls_pipeline, made, "a pipeline");
    status = take_config(made, config);
    return LS_HAND_OVER(status, pipeline, made, ls_pipeline_free(made));
}

void ls_pipeline_free(struct ls_pipeline *pipeline) {
    if (!pipeline) return;
    ls_read_ahead_free(pipeline->ahead);
    ls_order_free(pipeline->order);
    ls_free(pipeline->totals);
    ls_free(pipeline);
}

int64_t ls_pipeline_steps(const struct ls_pipeline *pipeline) {
    return pipeline->steps;
}

int64_t ls_pipeline_max_rows(const struct ls_pipeline *pipeline) {
    return ls_division_max_rows(&pipeline->plan);
}

/* Fills in the rows of the local replicas at a step. */
static void plan_step(struct ls_pipeline *pipeline, struct ls_read_step *step) {
    step->first[0] = 0;
    for (int i = 0; i < pipeline->local_replicas; i++) {
        struct ls_row_range share = ls_division_share(&pipeline->plan, step->step, pipeline->first_replica + i);
        ls_order_rows(pipeline->order, step->epoch, share.first, share.count, step->rows + step->first[i]);
        step->first[i + 1] = step->first[i] + share.count;
    }
}

/* With scaled batches a step is counted in portions of plan.batch rows, stride of them where the step is whole. A
 * position is thereby the same with any number of replicas present. */
static int64_t taken_at(const struct ls_pipeline *pipeline, int64_t step) {
    const struct ls_division_plan *plan = &pipeline->plan;
    return plan->stride ? (ls_division_global_rows(plan, step) + plan->batch - 1) / plan->batch : 1;
}

/* Steps are put under way until there is no room; epoch follows epoch. */
static void read_on(struct ls_pipeline *pipeline, int64_t epoch, int64_t step) {
    const struct ls_read_step *last = NULL;
    for (struct ls_read_step *next; (next = ls_read_ahead_room(pipeline->ahead, &last)); last = NULL) {
        next->epoch = last ? last->epoch : epoch;
        next->step = last ? last->step + taken_at(pipeline, last->step) : step;
        if (next->step >= pipeline->steps) next->step = 0, next->epoch++;
        if (next->epoch > pipeline->last_epoch) break;
        plan_step(pipeline, next);
        ls_read_ahead_start(pipeline->ahead);
    }
}

ls_status ls_pipeline_seek(struct ls_pipeline *pipeline, int64_t epoch, int64_t step) {
    if (epoch < 0 || epoch > pipeline->last_epoch)
        return ls_fail(LS_OUT_OF_RANGE, "there is no epoch %lld", (long long)epoch);
    if (step < 0 || step >= pipeline->steps)
        return ls_fail(LS_OUT_OF_RANGE, "step %lld is past the end: an epoch has %lld steps", (long long)step,
                       (long long)pipeline->steps);
    ls_status status = ls_read_ahead_seek(pipeline->ahead, epoch, step);
    if (!status) read_on(pipeline, epoch, step);
    return status;
}

int64_t ls_pipeline_global_rows(const struct ls_pipeline *pipeline) {
    return ls_division_global_rows(&pipeline->plan, ls_read_ahead_present(pipeline->ahead)->step);
}

int64_t ls_pipeline_taken(const struct ls_pipeline *pipeline) {
    return taken_at(pipeline, ls_read_ahead_present(pipeline->ahead)->step);
}

int64_t ls_pipeline_rows(const struct ls_pipeline *pipeline, int local_replica) {
    const int64_t *first = ls_read_ahead_present(pipeline->ahead)->first;
    return first[local_replica + 1] - first[local_replica];
}

const struct ls_target_kind *ls_pipeline_targets(const struct ls_pipeline *pipeline) {
    return &pipeline->targets;
}

bool ls_pipeline_is_labelled(const struct ls_pipeline *pipeline) {
    return !pipeline->unlabelled && !pipeline->dataset->source->unlabelled;
}

void ls_pipeline_leave_targets(struct ls_pipeline *pipeline) {
    pipeline->unlabelled = true;
}

const struct ls_pixel_table *ls_pipeline_table(const struct ls_pipeline *pipeline) {
    return ls_read_ahead_table(pipeline->ahead);
}

void ls_pipeline_take_classes(struct ls_pipeline *pipeline) {
    if (!pipeline->targets.numbers) return;
    pipeline->takes_classes = true;
    pipeline->targets.numbers = false;
}

bool ls_pipeline_leaves_out(const struct ls_pipeline *pipeline) {
    return pipeline->takes_classes && pipeline->dataset->source->whole.uncounted;
}

bool ls_pipeline_weighs_classes(const struct ls_pipeline *pipeline) {
    return pipeline->class_weight;
}

/* Of rows that have been read. */
static ls_status complete_targets(const struct ls_pipeline *pipeline, int64_t rows, const struct ls_targets *targets) {
    ls_status status = pipeline->takes_classes ? ls_targets_make_classes(&pipeline->targets, targets, rows,
                                                                         ls_pipeline_leaves_out(pipeline))
                                               : LS_OK;
    if (!status && pipeline->class_weight)
        ls_class_weight_apply(pipeline->class_weight, &pipeline->targets, rows, targets);
    return status;
}

ls_status ls_pipeline_read(const struct ls_pipeline *pipeline, int local_replica, float *features,
                           const struct ls_targets *targets) {
    const struct ls_read_rows place = {features, ls_targets_place(targets, pipeline->takes_classes)};
    ls_status status = ls_read_ahead_take(pipeline->ahead, local_replica, place);
    return status ? status : complete_targets(pipeline, ls_pipeline_rows(pipeline, local_replica), targets);
}

ls_status ls_pipeline_find(const struct ls_pipeline *pipeline, int place, int local_replica, const void **features,
                           const struct ls_targets *targets) {
    int64_t rows = place ? ls_pipeline_next_rows(pipeline, local_replica) : ls_pipeline_rows(pipeline, local_replica);
    struct ls_read_rows found;
    ls_status status = ls_read_ahead_find(pipeline->ahead, place, local_replica, &found);
    if (status) return status;
    *features = found.features;
    const struct ls_targets read = ls_targets_place(targets, pipeline->takes_classes);
    ls_targets_copy(&pipeline->dataset->targets, &found.targets, rows, &read);
    return complete_targets(pipeline, rows, targets);
}

struct ls_pipeline_step ls_pipeline_present(const struct ls_pipeline *pipeline) {
    const struct ls_read_step *step = ls_read_ahead_present(pipeline->ahead);
    return (struct ls_pipeline_step){step->epoch, step->step};
}

bool ls_pipeline_next(const struct ls_pipeline *pipeline, struct ls_pipeline_step *next) {
    const struct ls_read_step *step = ls_read_ahead_next(pipeline->ahead);
    if (step) *next = (struct ls_pipeline_step){step->epoch, step->step};
    return step;
}

int64_t ls_pipeline_next_rows(const struct ls_pipeline *pipeline, int local_replica) {
    const int64_t *first = ls_read_ahead_next(pipeline->ahead)->first;
    return first[local_replica + 1] - first[local_replica];
}

/* Appends to text; what does not fit is left out. */
static void __attribute__((format(printf, 3, 4))) append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    (void)LS_PLAIN_ARGUMENTS(text + used, size - used, format);
}

/* "16 + 16 of 64": this worker's replicas, and all, at a step. */
static void describe_step(const struct ls_pipeline *pipeline, int64_t step, char *text, size_t size) {
    for (int i = 0; i < pipeline->local_replicas; i++)
        append(text, size, i ? " + %lld" : "%lld",
               (long long)ls_division_share(&pipeline->plan, step, pipeline->first_replica + i).count);
    append(text, size, " of %lld", (long long)ls_division_global_rows(&pipeline->plan, step));
}

static void describe_files(const struct ls_pipeline *pipeline, char *text, size_t size) {
    const struct ls_division_plan *plan = &pipeline->plan;
    int64_t files = pipeline->dataset->source->files, workers = plan->num_workers;
    int64_t worker = (int64_t)pipeline->first_replica * workers / plan->num_replicas;
    append(text, size, "; this worker reads file%s", worker + workers < files ? "s" : "");
    for (int64_t file = worker, named = 0; file < files; file += workers, named++) {
        if (named == 4) {
            append(text, size, ", ... (every %lldth of %lld)", (long long)workers, (long long)files);
            break;
        }
        append(text, size, named ? ", %lld" : " %lld", (long long)file);
    }
}

static void describe_hint(const struct ls_pipeline *pipeline, char *text, size_t size) {
    const struct ls_division_plan *plan = &pipeline->plan;
    static const char *const what[] = {[LS_HINT_NONE] = "",
                                       [LS_HINT_FILES] = "files",
                                       [LS_HINT_EXAMPLES] = "examples",
                                       [LS_HINT_ROWS] = "rows",
                                       [LS_HINT_BATCHES] = "batches"};
    if (plan->shard != LS_SHARD_HINT) return;
    append(text, size, "; of %s this worker has number %d of each %d", what[pipeline->dataset->options.shard_hint],
           (int)((int64_t)pipeline->first_replica * plan->num_workers / plan->num_replicas), plan->num_workers);
}

/* What AUTO has become, and why. */
static void describe_auto(const struct ls_pipeline *pipeline, char *text, size_t size) {
    const struct ls_division_plan *plan = &pipeline->plan;
    if (pipeline->dataset->options.auto_shard != LS_SHARD_AUTO || plan->rule != LS_DIVIDE_TENSORFLOW) return;
    append(text, size, "; auto_shard AUTO is %s: %lld files for %d workers", shards_files(pipeline) ? "FILE" : "DATA",
           (long long)pipeline->dataset->source->files, plan->num_workers);
}

void ls_pipeline_describe(const struct ls_pipeline *pipeline, char *text, size_t size) {
    const ls_dataset *dataset = pipeline->dataset;
    const struct ls_source *source = dataset->source;
    char shape[128];
    ls_shape_text(&dataset->shape, shape, sizeof(shape));
    (void)snprintf(text, size, "%s: %lld examples of %s", source->kind, (long long)dataset->count, shape);
    if (source->files) append(text, size, " in %lld file%s", (long long)source->files, source->files > 1 ? "s" : "");
    if (source->damaged) append(text, size, ", %lld damaged ones left out", (long long)source->damaged);
    if (source->others) append(text, size, ", %lld other files passed over", (long long)source->others);
    describe_auto(pipeline, text, size);
    if (shards_files(pipeline)) describe_files(pipeline, text, size);
    if (!shards_files(pipeline) && pipeline->plan.totals) describe_hint(pipeline, text, size);
    append(text, size, "; %lld step%s an epoch; this worker takes ", (long long)pipeline->steps,
           pipeline->steps == 1 ? "" : "s");
    describe_step(pipeline, 0, text, size);
    append(text, size, pipeline->steps > 1 ? " examples a step, " : " examples");
    if (pipeline->steps > 1) describe_step(pipeline, pipeline->steps - 1, text, size);
    if (pipeline->steps > 1) append(text, size, " in the last");
    if (pipeline->threads)
        append(text, size, "; %d threads read %d steps ahead", pipeline->threads, dataset->options.prefetch);
}
