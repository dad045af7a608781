/* The loss of a plan, behind its last layer, with the metrics: what compares the outputs with labels. Labels have the
 * outputs' shape, or where they are classes that shape without the last axis. A loss of one of several classes judges
 * each position by itself, and an example's is the mean over its positions. A position whose label is
 * LS_LABEL_UNCOUNTED is left out, and the mean over all examples is over those that count (train/label_count.c).
 * Mirrors reduction "sum_over_batch_size" of keras.losses, and ignore_index of torch's cross_entropy. */
#include "model/plan_builder.h"
#include "model/network.h"

/* Part of what the plan is given for each row; absent where it is given nothing. */
static struct ls_tensor given_for(const struct ls_plan_builder *builder, enum ls_plan_given given, ls_dtype dtype,
                                  ls_shape shape, const struct ls_plan_part *part) {
    shape.dims[0] = ls_plan_builder_config(builder)->rows;
    return ls_plan_head_part(ls_plan_builder_given(builder, given, dtype, &shape), part);
}

/* A weight for each row; absent where all count as 1. */
static struct ls_tensor weights_of(const struct ls_plan_builder *builder, const struct ls_plan_part *part) {
    return given_for(builder, LS_GIVEN_WEIGHTS, LS_FLOAT32, LS_SHAPE(part->rows), part);
}

/* The labels, one-hot rows of them, or numbers. */
static ls_status append_labels(struct ls_plan_builder *builder, const ls_shape *outputs,
                               const struct ls_plan_part *part, struct ls_tensor *labels) {
    const struct ls_plan_config *config = ls_plan_builder_config(builder);
    struct ls_op expand = {.kind = LS_OP_ONE_HOT};
    ls_shape shape = *outputs;
    shape.rank -= !config->numbers;
    *labels = given_for(builder, LS_GIVEN_TARGETS, config->numbers ? LS_FLOAT32 : LS_INT32, shape, part);
    if (config->numbers) return LS_OK;
    if (config->objective.loss != LS_CATEGORICAL_CROSSENTROPY) return LS_OK;
    expand.tensors[LS_ARG_LABELS] = *labels;
    expand.tensors[LS_ARG_ONE_HOT] = *labels = ls_plan_builder_tensor(builder, LS_FLOAT32, outputs);
    return ls_plan_builder_append(builder, &expand);
}

static ls_status append_metrics(struct ls_plan_builder *builder, const struct ls_tensor *logits,
                                const struct ls_tensor *labels, const struct ls_plan_part *part) {
    const struct ls_plan_config *config = ls_plan_builder_config(builder);
    const struct ls_objective *objective = &config->objective;
    ls_status status = LS_OK;
    for (int i = 0; !status && i < objective->metric_count; i++) {
        struct ls_op op = {.kind = LS_OP_METRIC, .metric = objective->metrics[i]};
        if (ls_metric_is_of_loss(&op.metric)) continue; /* sums.loss has it */
        op.value = &config->sums->metrics[i];
        op.tensors[LS_ARG_LOGITS] = *logits;
        op.tensors[LS_ARG_LABELS] = *labels;
        if (ls_objective_metric_is_weighted(objective, i)) op.tensors[LS_ARG_WEIGHTS] = weights_of(builder, part);
        status = ls_plan_builder_append(builder, &op);
    }
    return status;
}

/* The loss comes last: with it the sums are complete. */
ls_status ls_plan_loss_append(struct ls_plan_builder *builder, const struct ls_tensor *outputs,
                              const struct ls_tensor *gradient, const struct ls_plan_part *part) {
    const struct ls_plan_config *config = ls_plan_builder_config(builder);
    const ls_shape whole = LS_SHAPE(part->rows, ls_network_outputs(config->network));
    struct ls_op op = {.kind = ls_objective_op(&config->objective),
                       .alpha = config->objective.label_smoothing,
                       .beta = config->objective.huber_delta,
                       .scale = config->gradient_scale ? config->gradient_scale : config->loss_scale,
                       .sums = config->sums};
    struct ls_tensor *logits = &op.tensors[LS_ARG_LOGITS];
    *logits = *outputs;
    if (ls_objective_positions(&config->objective, ls_network_output_shape(config->network)) == 1)
        logits->shape = whole;
    op.tensors[LS_ARG_DLOGITS] = *gradient;
    op.tensors[LS_ARG_DLOGITS].shape = logits->shape;
    op.tensors[LS_ARG_WEIGHTS] = weights_of(builder, part);
    ls_status status = append_labels(builder, &logits->shape, part, &op.tensors[LS_ARG_LABELS]);
    if (!status) status = append_metrics(builder, logits, &op.tensors[LS_ARG_LABELS], part);
    return status ? status : ls_plan_builder_append(builder, &op);
}
