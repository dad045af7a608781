/* A fit that begins anew in the same processes: nobody has some of the state any more, and all have found it together.
 * Each process lets go of what it has, as one that was just started. The next generation begins without a state, so the
 * fit goes on from its newest checkpoint. */
#include "train/fit.h"

#include <math.h>

#include "base/memory.h"
#include "collective/group.h"
#include "runtime/state_transfer.h"
#include "train/model_state.h"
#include "train/staged.h"

ls_result ls_fit_anew_result(const ls_model *model) {
    ls_result result = {.val_loss = NAN, .val_accuracy = NAN, .samples_per_second = NAN};
    for (int i = 0; i < model->spec.objective.metric_count; i++) result.val_metrics[i] = NAN;
    return result;
}

/* A process that is just started comes to its first call, and has no model before it. */
void ls_fit_anew_prepare(struct ls_fitting *fitting) {
    ls_model *model = fitting->model;
    fitting->first = ls_model_state_progress(model);
    model->progress.returns =
        fitting->options.checkpoint && !fitting->index && !model->built.replicas && !model->sync->apart;
}

void ls_fit_anew_end(ls_model *model) {
    model->progress.returns = false;
    if (model->built.stages) model->strategy->runtime->lost = true;
}

/* Without one of its workers a stage is nobody's. */
bool ls_fit_anew_is_due(const struct ls_fitting *fitting, ls_status status) {
    struct ls_runtime *runtime = fitting->model->strategy->runtime;
    const struct ls_stages *stages = fitting->model->built.stages;
    return runtime->anew || (stages && stages->returns && ls_runtime_may_recover(runtime, status));
}

void ls_fit_anew_forget(struct ls_fitting *fitting) {
    ls_strategy *strategy = fitting->model->strategy;
    ls_state_transfer_forget(strategy->runtime);
    ls_group_sever(strategy->runtime->group);
    ls_training_leave_fit(strategy);
    ls_checkpointing_free(ls_steal(fitting->checkpointing));
    ls_fit_stretch_forget(&fitting->stretch);
    ls_model_state_set_progress(fitting->model, &fitting->first);
    fitting->state = (struct ls_fit_state){.result = ls_fit_anew_result(fitting->model)};
    fitting->begun = false;
    fitting->told = fitting->shown = -1;
    fitting->stepped = 0;
}
