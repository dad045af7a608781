/* The mean goes by one all-reduce of the variables, and one of each moment. */
#include "sync/meeting.h"

#include "collective/collectives.h"
#include "strategy/strategy.h"

ls_status ls_meeting_add_up(const ls_model *model, const ls_all_reduce_options *what) {
    const struct ls_all_reduce call = {.name = what->name,
                                       .communication = model->strategy->runtime->communication,
                                       .op = what->op,
                                       .dtype = what->dtype,
                                       .compression = what->compression,
                                       .count = what->count,
                                       .inputs = &what->input,
                                       .outputs = &what->output};
    return what->count ? ls_group_all_reduce(model->strategy->runtime->group, &call) : LS_OK;
}

int ls_meeting_moments(const ls_model *model) {
    return model->strategy->local.local_moments ? 0 : ls_optimizer_moments(&model->progress.step.rule);
}

ls_status ls_meeting_mean(const ls_model *model, size_t count, const float *before, float *now) {
    bool outer = model->strategy->local.outer_learning_rate > 0;
    for (size_t i = 0; outer && i < count; i++) now[i] = before[i] - now[i];
    return ls_meeting_add_up(
        model, LS_ALL_REDUCE("meeting", now, now, count, LS_FLOAT32, LS_MEAN, model->strategy->options.compression));
}

ls_status ls_meeting_mean_moments(const ls_model *model, size_t count, float *now, size_t stride) {
    ls_status status = LS_OK;
    for (int m = 0; !status && m < ls_meeting_moments(model); m++, now += stride)
        status = ls_meeting_add_up(model, LS_ALL_REDUCE("meeting", now, now, count, .op = LS_MEAN));
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
