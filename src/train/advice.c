/* Warnings about options that do what they say and help nobody. */
#include "train/fit.h"

#include "model/objective.h"

static void advise_on_batch(const struct ls_log *log, const ls_dataset *data, int replicas) {
    long long batch = data->options.batch_size, examples = data->count * data->options.repeat;
    if (batch < replicas)
        ls_log_warning(log, "batch_size %lld is less than %d replicas: %lld of them have no example in any step", batch,
                       replicas, replicas - batch);
    if (batch > examples && !data->options.drop_remainder)
        ls_log_warning(log, "batch_size %lld is more than the %lld examples of an epoch: an epoch is one step of these",
                       batch, examples);
}

static void advise_on_metrics(const struct ls_log *log, const struct ls_objective *objective, int classes) {
    for (int i = 0; i < objective->metric_count; i++)
        if (objective->metrics[i].kind == LS_METRIC_TOP_K && classes && objective->metrics[i].k >= classes)
            ls_log_warning(log, "metric %s: k is %d, and there are %d classes: it is always 1",
                           ls_metric_name(&objective->metrics[i]), objective->metrics[i].k, classes);
}

static void advise_on_files(const struct ls_log *log, const struct ls_source *source) {
    if (source->unread)
        ls_log_warning(log,
                       "data: %lld images are passed over, as GIF, WebP, BMP, TIFF, HEIC and AVIF are not read: "
                       "convert them to JPEG or PNG",
                       (long long)source->unread);
}

/* Keras' losses take probabilities, ours the numbers before. */
static void advise_on_outputs(const struct ls_log *log, const ls_model *model) {
    const struct ls_objective *objective = &model->spec.objective;
    const bool binary = objective->loss == LS_BINARY_CROSSENTROPY;
    const ls_activation last = model->spec.layers[model->spec.layer_count - 1].activation;
    if (objective->from_probabilities || ls_objective_is_regression(objective)) return;
    if (last != (binary ? LS_SIGMOID : LS_SOFTMAX)) return;
    ls_log_warning(log,
                   "the last layer is a %s, and %s has one too: leave the layer's out, or compile with "
                   "from_probabilities",
                   binary ? "sigmoid" : "softmax", binary ? "binary_crossentropy" : "the loss");
}

/* Dai et al. 2018 (arXiv 1810.03264) measure it. */
static void advise_on_old_gradients(const struct ls_log *log, const ls_model *model) {
    const ls_optimizer *rule = &model->progress.step.rule;
    bool adaptive = rule->kind == LS_OPTIMIZER_ADAM || rule->kind == LS_OPTIMIZER_LAMB;
    if (model->sync->advise && (adaptive || rule->momentum >= 0.9F))
        model->sync->advise(log, model->strategy, adaptive ? "Adam and its like" : "a momentum of 0.9 or more");
}

void ls_advice_give(const ls_model *model, const ls_dataset *data) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    if (runtime->rank > 0) return;
    advise_on_batch(&runtime->log, data, model->strategy->total_count);
    advise_on_files(&runtime->log, data->source);
    advise_on_old_gradients(&runtime->log, model);
    advise_on_outputs(&runtime->log, model);
    advise_on_metrics(&runtime->log, &model->spec.objective, data->source->classes);
}
