/* The lines of a training's fingerprint. */
#include "train/fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/new.h"
#include "base/options.h"
#include "base/text.h"
#include "data/dataset.h"
#include "train/training_state.h"
#include "base/plain.h"

/* Appends a dataset's lines, each with prefix. */
static ls_status describe_data(FILE *out, const char *prefix, const ls_dataset *data) {
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    ls_status status = ls_dataset_describe(data, &lines);
    if (status) return status;
    char *state = NULL;
    for (char *line = strtok_r(lines, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
        (void)fprintf(out, "%s %s\n", prefix, line);
    return LS_OK;
}

/* The arguments of the describing functions below. */
struct subject {
    const ls_model *model;
    const ls_dataset *data;
    const ls_fit_options *options;
    const struct ls_fit_lines *lines;
};

static ls_status describe_the_data(FILE *out, const struct subject *subject) {
    return describe_data(out, "data", subject->data);
}

/* Tells only that initial weights were given: their values are the chief's. */
static void describe_weights(FILE *out, const ls_model *model) {
    (void)fprintf(out, "initial_weights=%s\n", model->spec.initial ? "loaded" : "drawn");
}

static ls_status describe_evaluation(FILE *out, const struct subject *subject) {
    describe_weights(out, subject->model);
    return describe_the_data(out, subject);
}

static void describe_class_weight(FILE *out, const ls_class_weight *list) {
    for (const ls_class_weight *at = list; at && at->label >= 0; at++)
        (void)ls_plain_print(out, "%s%d:%.9g", at == list ? "class_weight=" : " ", at->label, (double)at->weight);
    if (list) (void)fprintf(out, "\n");
}

static ls_status describe_training(FILE *out, const struct subject *subject) {
    const ls_model *model = subject->model;
    LS_CLEANUP(ls_free_pointer) char *rule = NULL;
    char objective[LS_OBJECTIVE_TEXT];
    ls_optimizer compiled = model->progress.step.rule;
    compiled.learning_rate = model->spec.compiled_rate;
    ls_status status = ls_optimizer_describe(&compiled, &rule);
    if (status) return status;
    ls_objective_describe(&model->spec.objective, objective);
    (void)fprintf(out, "optimizer=%s\n%sseed=%llu\niteration=%lld\nsteps_per_epoch=%lld\n", rule, objective,
                  (unsigned long long)model->spec.seed, (long long)ls_training_iteration(model),
                  (long long)subject->options->steps_per_epoch);
    describe_class_weight(out, subject->options->class_weight);
    return describe_the_data(out, subject);
}

/* A difference in these lines between a checkpoint and this run is a warning: training can go on, with other bits. The
 * number of replicas is among them, for it is the number of leaves of the tree. */
static ls_status describe_bits(FILE *out, const struct subject *subject) {
    const ls_strategy *strategy = subject->model->strategy;
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    char device[512];
    for (int i = 0; i < strategy->local_count; i++) devices[i] = strategy->replicas[i].device;
    ls_devices_fingerprint(devices, strategy->local_count, device, sizeof(device));
    (void)fprintf(out, "device=%s\nthreads_per_replica=%d\nreplicas=%d\ncommunication=%s\ncompression=%s\n", device,
                  strategy->options.threads_per_replica, ls_num_replicas_in_sync(strategy),
                  ls_option_names_communication(strategy->options.communication),
                  ls_option_names_compression(strategy->options.compression));
    if (subject->model->spec.objective.nondeterministic_ops) (void)fprintf(out, "nondeterministic_ops=yes\n");
    const struct ls_sync_ops *sync = subject->model->sync;
    return sync->describe ? sync->describe(out, strategy, subject->options->checkpoint) : LS_OK;
}

/* AUTO adds alike on the host however the replicas are laid out and the buckets are cut. */
static bool depends_on_layout(const struct subject *subject) {
    const ls_strategy_options *options = &subject->model->strategy->options;
    return options->communication != LS_AUTO || subject->model->bound.nccl ||
           options->compression != LS_COMPRESS_NONE || subject->data->options.division != LS_DIVIDE_LAYOUT_INVARIANT;
}

static ls_status describe_all_bits(FILE *out, const struct subject *subject) {
    const ls_strategy *strategy = subject->model->strategy;
    const struct ls_settings *settings = &strategy->runtime->settings;
    (void)fprintf(out, "%s", subject->lines->bits);
    if (*subject->model->built.adder) (void)fprintf(out, "gradients=%s\n", subject->model->built.adder);
    if (depends_on_layout(subject))
        (void)fprintf(out, "workers=%d\nbytes_per_pack=%zu\nfirst_bucket=%lld\nbucket=%lld\n", strategy->runtime->size,
                      strategy->options.bytes_per_pack, (long long)settings->first_bucket, (long long)settings->bucket);
    return LS_OK;
}

static ls_status describe_checkpoint(FILE *out, const ls_checkpoint_options *options) {
    ls_checkpoint_options known;
    ls_status status = ls_options_copy("ls_checkpoint_options", &known, sizeof(known), options);
    if (status) return status;
    (void)fprintf(out, "checkpoint=%s\ncheckpoint_overrides=%s\n", options ? "yes" : "no",
                  known.overrides ? known.overrides : "none");
    return LS_OK;
}

static ls_status describe_others(FILE *out, const struct subject *subject) {
    const struct ls_settings *settings = &subject->model->strategy->runtime->settings;
    const ls_fit_options *options = subject->options;
    (void)fprintf(out, "epochs=%d\nbytes_per_pack=%zu\nfirst_bucket=%lld\nbucket=%lld\n", options->epochs,
                  subject->model->strategy->options.bytes_per_pack, (long long)settings->first_bucket,
                  (long long)settings->bucket);
    const ls_strategy_options *strategy = &subject->model->strategy->options;
    (void)fprintf(out, "shard=%s\nshard_copies=%d\nstages=%d\n", ls_option_names_sharding(strategy->shard),
                  strategy->shard_copies, strategy->stages);
    describe_weights(out, subject->model);
    ls_status status = describe_checkpoint(out, options->checkpoint);
    if (status) return status;
    for (ls_callback *const *callback = options->callbacks; callback && *callback; callback++)
        (void)fprintf(out, "callback=%s(%s)\n", (*callback)->name, (*callback)->alike ? (*callback)->alike : "");
    return options->validation_data ? describe_data(out, "validation_data", options->validation_data) : LS_OK;
}

static ls_status describe_all(FILE *out, const struct subject *subject) {
    const struct ls_fit_lines *lines = subject->lines;
    (void)fprintf(out, "%s%s%s", lines->training, lines->others, lines->bits);
    return LS_OK;
}

typedef ls_status describe_fn(FILE *out, const struct subject *subject);

static ls_status collect_lines(describe_fn *describe, const struct subject *subject, char **lines) {
    struct ls_text text;
    FILE *out = ls_text_open(&text, 1);
    ls_status status = out ? describe(out, subject) : LS_OK;
    return ls_text_close(&text, status, "the training's fingerprint", lines);
}

ls_status ls_fingerprint_describe_fit(const ls_model *model, const ls_dataset *data, const ls_fit_options *options,
                                      struct ls_fit_lines *lines) {
    const struct subject subject = {model, data, options, NULL};
    struct ls_fit_lines made = {0};
    ls_status status = collect_lines(describe_training, &subject, &made.training);
    if (!status) status = collect_lines(describe_bits, &subject, &made.bits);
    if (!status) status = collect_lines(describe_others, &subject, &made.others);
    if (!status) status = collect_lines(describe_all, &(struct subject){.lines = &made}, &made.all);
    return LS_HAND_OVER(status, lines, made, ls_fingerprint_free_lines(&made));
}

ls_status ls_fingerprint_describe_bits(const ls_model *model, const ls_dataset *data, const struct ls_fit_lines *lines,
                                       char **bits) {
    const struct subject subject = {model, data, NULL, lines};
    return collect_lines(describe_all_bits, &subject, bits);
}

void ls_fingerprint_free_lines(struct ls_fit_lines *lines) {
    ls_free(lines->training);
    ls_free(lines->bits);
    ls_free(lines->others);
    ls_free(lines->all);
    *lines = (struct ls_fit_lines){0};
}

ls_status ls_fingerprint_agree_evaluation(const ls_model *model, const ls_dataset *data) {
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    const struct subject subject = {.model = model, .data = data};
    ls_status status = collect_lines(describe_evaluation, &subject, &lines);
    return status ? status : ls_runtime_agree(model->strategy->runtime, "evaluation", lines);
}
