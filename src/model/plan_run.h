/* Running a plan, in its replica's thread. */
#pragma once
#include "model/plan.h"

/* Forward with the loss, and backward. Gradients are overwritten, not added to. ready may be NULL. */
ls_status ls_plan_run(struct ls_plan *plan, ls_ready_fn *ready, void *context);
/* Then ops of the same device: the same ones in each run. */
ls_status ls_plan_run_with(struct ls_plan *plan, const struct ls_op *const *tail, size_t count);
/* A follower waits for some gradients alone. wants tells whether it waits for any from offset to before. */
typedef bool ls_wants_fn(void *context, size_t offset, size_t before);
struct ls_plan_follower {
    ls_ready_fn *ready;
    ls_wants_fn *wants; /* asked once, in the first run */
    void *context;
};
/* As ls_plan_run with ready; but where the device can it has a program of all that lies between two offsets which the
 * follower wants, and tells these alone. */
ls_status ls_plan_run_followed(struct ls_plan *plan, const struct ls_plan_follower *follower);
/* Why a device cannot run the plan as one program, once; NULL after that, and where it can. */
const char *ls_plan_run_refusal(struct ls_plan *plan);
/* Each alone, op by op. Between the two no plan of the same arena may run. */
ls_status ls_plan_run_forward(struct ls_plan *plan);
ls_status ls_plan_run_backward(struct ls_plan *plan, ls_ready_fn *ready, void *context);
/* The exchanges of a run, and nothing else: the part of a replica that has no examples in this step. */
ls_status ls_plan_run_idle(const struct ls_plan *plan);
