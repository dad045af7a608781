/* The mean goes by one all-reduce of the variables, and one of each moment. */
#include "train/meeting.h"

#include "collective/collectives.h"
#include "strategy/reduce.h"

ls_status ls_meeting_add_up(const ls_model *model, ls_reduce_op op, ls_dtype dtype, ls_compression compression,
                            size_t count, void *array) {
    const struct ls_all_reduce call = {.name = "meeting",
                                       .communication = ls_reduce_communication(model->strategy),
                                       .op = op,
                                       .dtype = dtype,
                                       .compression = compression,
                                       .count = count,
                                       .inputs = (const void *const[]){array},
                                       .outputs = (void *const[]){array}};
    return count ? ls_group_all_reduce(model->strategy->runtime->group, &call) : LS_OK;
}

int ls_meeting_moments(const ls_model *model) {
    return model->strategy->local.local_moments ? 0 : ls_optimizer_moments(&model->progress.step.rule);
}

ls_status ls_meeting_mean(const ls_model *model, size_t count, const float *before, float *now, size_t stride) {
    bool outer = model->strategy->local.outer_learning_rate > 0;
    int moments = ls_meeting_moments(model);
    for (size_t i = 0; outer && i < count; i++) now[i] = before[i] - now[i];
    ls_status status = ls_meeting_add_up(model, LS_MEAN, LS_FLOAT32, model->strategy->options.compression, count, now);
    for (size_t m = 1; !status && m <= (size_t)moments; m++)
        status = ls_meeting_add_up(model, LS_MEAN, LS_FLOAT32, LS_COMPRESS_NONE, count, now + m * stride);
    return status;
}

/* SGD with Nesterov momentum on the mean change: torch.optim.SGD(nesterov=True), as in DiLoCo. */
void ls_meeting_step_outer(const ls_model *model, size_t count, const float *before, float *now, float *momentum) {
    const ls_local_sgd_options *rule = &model->strategy->local;
    for (size_t i = 0; rule->outer_learning_rate > 0 && i < count; i++) {
        float change = now[i];
        if (momentum) {
            momentum[i] = rule->outer_momentum * momentum[i] + change;
            change += rule->outer_momentum * momentum[i];
        }
        now[i] = before[i] - rule->outer_learning_rate * change;
    }
}
