/* The table of ways, and mirrored training, in which every step adds up gradients and nothing is kept for later. */
#include "sync/sync.h"

#include "base/kept_error.h"
#include "strategy/iterator.h"
#include "train/model.h"
#include "train/sparse.h"
#include "train/step.h"

static const struct ls_sync_ops mirrored = {
    .asks_in_step = true, .check = ls_sparse_check, .commit = ls_sync_commit, .open_data = ls_iterator_open_pipeline};

static const struct ls_sync_ops *const ways[] = {
    [LS_WAY_MIRRORED] = &mirrored,    [LS_WAY_SERVERS] = &ls_sync_servers, [LS_WAY_DELAYED] = &ls_sync_delayed,
    [LS_WAY_LOCAL] = &ls_sync_local,  [LS_WAY_ASYNC] = &ls_sync_async,     [LS_WAY_SHARDED] = &ls_sync_sharded,
    [LS_WAY_STAGES] = &ls_sync_stages};

const struct ls_sync_ops *ls_sync_of(const ls_strategy *strategy) {
    return ways[strategy->way];
}

ls_status ls_sync_give_up(const struct ls_runtime *runtime, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    ls_runtime_give_up(runtime, status, kept.message);
    return ls_kept_error_raise(&kept);
}

/* penalty is that of one replica, since all have the same variables. */
ls_status ls_sync_commit(ls_model *model, struct ls_loss_sums *sums) {
    ls_step_report_read(model, model->bound.extras, model->built.replicas[0].numbers->penalty, sums);
    model->progress.asked = model->progress.request;
    model->progress.request = LS_GO_ON;
    return LS_OK;
}
