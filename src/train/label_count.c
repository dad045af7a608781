/* The scale of a loss whose data have labels that do not count: 1 over the positions of all replicas that do. Nobody
 * knows it before the batch is loaded, so the replicas add their counts before forward. The scale is then right from
 * the start, as all that comes behind it takes it to be: clipping, accumulation, servers. Data without such labels have
 * no part in this. Replicas whose steps go on meanwhile (counts_later) do not meet: the sums of a step, which have both
 * numbers, are multiplied before anything else. Mirrors ignore_index and reduction
 * "mean" of torch.nn.CrossEntropyLoss, over all processes. */
#include "train/step.h"

#include "base/kept_error.h"
#include "base/status.h"
#include "data/dataset.h"
#include "device/labels.h"
#include "train/model.h"

static int64_t positions_of_model(const ls_model *model) {
    return ls_objective_positions(&model->spec.objective, ls_network_output_shape(model->built.network));
}

static double count_labels(const ls_model *model, int local) {
    const struct ls_model_replica *replica = &model->built.replicas[local];
    const struct ls_model_input *input = &replica->inputs[replica->input];
    const int32_t *labels = replica->device->host_memory ? input->targets : input->host_targets;
    int64_t count = ls_pipeline_rows(model->progress.pipeline, local) * positions_of_model(model), counted = 0;
    for (int64_t i = 0; i < count; i++) counted += labels[i] != LS_LABEL_UNCOUNTED;
    return (double)counted;
}

/* The scale is that of other data, to the bit, where all labels count. A step where none does has no gradients. */
static void set_scale(const ls_model *model, int local, double counted) {
    struct ls_model_numbers *numbers = model->built.numbers;
    int64_t positions = positions_of_model(model);
    double all = (double)(ls_step_rows(model) * positions);
    float scale = model->progress.scaler.scale > 0 ? model->progress.scaler.scale : 1;
    float mean = counted < all ? (float)((double)positions / counted) : numbers->loss_scale;
    numbers->replicas[local].gradient_scale = counted > 0 ? mean * scale : 0;
}

ls_status ls_label_count_scale(ls_model *model, int local, ls_status status) {
    struct ls_model_exchange *own = &model->built.replicas[local].exchange;
    double counted = 0;
    if (!ls_pipeline_leaves_out(model->progress.pipeline) || model->sync->counts_later) return status;
    if (!status) counted = count_labels(model, local);
    ls_kept_error_set(&own->error, status);
    ls_status others = ls_step_exchange(own, status ? NULL : &counted, 1);
    if (!model->bound.synchronized) own->failed = false; /* else the end of the step's exchanges asks for it */
    own->error.status = LS_OK;
    if (status) return ls_fail(status, "%s", own->error.message);
    if (!others) set_scale(model, local, counted);
    return others;
}

void ls_label_count_unscale(const ls_model *model, const float *extras, struct ls_optimizer_step *step) {
    struct ls_loss_sums sums = ls_step_report_counts(extras);
    double all = (double)sums.rows * (double)positions_of_model(model), counted = all - (double)sums.uncounted;
    if (!sums.uncounted || !(counted > 0)) return;
    step->unscale = (float)(all / counted) * (step->unscale > 0 ? step->unscale : 1);
}

ls_status ls_label_count_refuse(const ls_model *model, const ls_dataset *data, const char *subject, const char *why) {
    bool sparse = model->spec.objective.loss == LS_SPARSE_CATEGORICAL_CROSSENTROPY;
    if (!sparse || !data->source->whole.uncounted) return LS_OK;
    return ls_fail(LS_UNIMPLEMENTED, "%s: the dataset has labels of -1, which do not count, %s", subject, why);
}
