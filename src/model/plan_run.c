/* Running a plan: op by op, where ready(offset) tells that gradients from offset on are final; or, on a device
 * that compiles, as a program. A caller that follows no gradients has one program of all ops, and with them a tail. A
 * follower has a program a segment, which ends with an op behind which gradients that it wants are final. Programs are
 * compiled once the scales come for the second time in a row; a plan whose ops exchange statistics has none. */
#include "model/plan_run.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/thread.h"
#include "device/op_layers.h"
#include "model/plan.h"

/* ---- op by op ---- */

static ls_status await_variables(const struct ls_plan *plan, size_t begin, size_t end) {
    size_t needs = 0;
    for (size_t i = begin; plan->await && i < end; i++)
        if (plan->steps[i].needs > needs) needs = plan->steps[i].needs;
    return needs ? plan->await(plan->await_context, needs) : LS_OK;
}

static ls_status run_steps(struct ls_plan *plan, size_t first, size_t last, ls_ready_fn *ready, void *context) {
    ls_status status = LS_OK;
    for (size_t i = first, end; !status && i < last; i = end) {
        size_t offset = LS_NOT_READY;
        end = plan->steps[i].end ? plan->steps[i].end : i + 1;
        status = await_variables(plan, i, end);
        if (!status) status = ls_parts_run(plan, i, end);
        for (size_t s = i; s < end; s++)
            if (plan->steps[s].ready != LS_NOT_READY) offset = plan->steps[s].ready;
        if (!status && ready && offset != LS_NOT_READY) ready(context, offset);
    }
    return status;
}

static ls_status run_ops(struct ls_plan *plan, ls_ready_fn *ready, void *context) {
    return run_steps(plan, 0, plan->count, ready, context);
}

/* A kernel's first launch may load it, for which the driver may wait for the device; and that may wait for another one
 * whose part of a collective this thread's step has yet to bring. So in the first run all ops are done before anybody
 * is told that gradients are ready. */
static ls_status run_first(struct ls_plan *plan, ls_ready_fn *ready, void *context) {
    ls_status status = run_ops(plan, NULL, NULL);
    if (!status) status = ls_device_synchronize(plan->device);
    for (size_t i = 0; !status && i < plan->count; i++)
        if (plan->steps[i].ready != LS_NOT_READY) ready(context, plan->steps[i].ready);
    plan->ran = true;
    return status;
}

/* ---- all ops as one ---- */

/* Ops behind the plan's. */
struct tail {
    const struct ls_op *const *ops;
    size_t count;
};

static ls_status run_all(struct ls_plan *plan, struct tail tail) {
    ls_status status = run_ops(plan, NULL, NULL);
    for (size_t i = 0; !status && i < tail.count; i++) status = tail.ops[i]->run(tail.ops[i]);
    return status;
}

/* Steps from first to before end, and the tail. */
static ls_status compile_steps(const struct ls_plan *plan, size_t first, size_t end, struct tail tail,
                               struct ls_program **program) {
    size_t count = 0;
    LS_CLEANUP(ls_free_pointer)
    LS_NEW_ARRAY(const struct ls_op *, ops, end - first + tail.count, "the ops of a program");
    for (size_t i = first; i < end; i++) ops[count++] = &plan->steps[i].op;
    for (size_t i = 0; i < tail.count; i++) ops[count++] = tail.ops[i];
    return plan->device->ops->compile(plan->device, ops, count, program);
}

static ls_status compile(struct ls_plan *plan, struct tail tail) {
    ls_plan_drop_programs(plan);
    memcpy(plan->compiled_scales, plan->scales_before, sizeof(plan->compiled_scales));
    return compile_steps(plan, 0, plan->count, tail, &plan->program);
}

/* A run op by op may do what a driver or a library refuses in a program. An op's own error comes again in it. */
static ls_status run_uncompiled(struct ls_plan *plan, struct tail tail) {
    (void)snprintf(plan->refusal, sizeof(plan->refusal), "%s", ls_error());
    ls_status status = run_all(plan, tail);
    plan->uncompiled = !status;
    return status;
}

const char *ls_plan_run_refusal(struct ls_plan *plan) {
    if (!plan->uncompiled || plan->told) return NULL;
    plan->told = true;
    return plan->refusal;
}

/* A program has the scales that it was compiled with. It pays where they come more than once, so it is made when they
 * come for the second time in a row; short batches between leave it. */
static enum stand {
    PLAIN, /* op by op */
    DUE,   /* to be compiled */
    THERE, /* the programs that are there have these scales */
} look_at_scales(struct ls_plan *plan, bool compiled) {
    float scales[2] = {plan->scales[0] ? *plan->scales[0] : 0, plan->scales[1] ? *plan->scales[1] : 0};
    bool again = plan->ran && !memcmp(scales, plan->scales_before, sizeof(scales));
    bool fits = compiled && !memcmp(scales, plan->compiled_scales, sizeof(scales));
    plan->ran = true;
    memcpy(plan->scales_before, scales, sizeof(scales));
    return plan->uncompiled ? PLAIN : fits ? THERE : again ? DUE : PLAIN;
}

static ls_status run_as_one(struct ls_plan *plan, struct tail tail) {
    enum stand stand = look_at_scales(plan, plan->program);
    if (stand == PLAIN) return run_all(plan, tail);
    if (stand == DUE && compile(plan, tail)) return run_uncompiled(plan, tail);
    return plan->program->run(plan->program);
}

static bool may_compile(const struct ls_plan *plan) {
    return plan->device->ops->compile && !plan->exchanges && !plan->await;
}

/* A run whose caller does not follow the gradients. */
static ls_status run_quietly(struct ls_plan *plan, struct tail tail) {
    return (may_compile(plan) ? run_as_one : run_all)(plan, tail);
}

static ls_status run_telling(struct ls_plan *plan, ls_ready_fn *ready, void *context) {
    bool first = plan->device->ops->queue && !plan->ran && !plan->exchanges;
    return (first ? run_first : run_ops)(plan, ready, context);
}

/* ---- a program a segment ---- */

/* Segments end where wants has it, the last one with the plan. */
static ls_status make_segments(struct ls_plan *plan, ls_wants_fn *wants, void *context) {
    struct ls_plan_segment *segments = ls_alloc_array(plan->count, sizeof(*segments));
    size_t count = 0, begin = 0, before = SIZE_MAX;
    if (!segments) return ls_fail_memory("the segments of a plan", plan->count * sizeof(*segments));
    for (size_t i = 0; i < plan->count; i++) {
        size_t ready = plan->steps[i].ready;
        bool ends = ready != LS_NOT_READY && wants(context, ready, before);
        if (!ends && i + 1 < plan->count) continue;
        segments[count++] = (struct ls_plan_segment){.begin = begin, .end = i + 1, .ready = ready};
        begin = i + 1;
        if (ends) before = ready;
    }
    plan->segments = segments;
    plan->segment_count = count;
    return LS_OK;
}

/* All before the first is run, and before anybody is told: to compile the driver may wait for the device. */
static ls_status compile_segments(struct ls_plan *plan) {
    ls_status status = LS_OK;
    ls_plan_drop_programs(plan);
    for (size_t i = 0; !status && i < plan->segment_count; i++) {
        struct ls_plan_segment *segment = &plan->segments[i];
        status = compile_steps(plan, segment->begin, segment->end, (struct tail){NULL, 0}, &segment->program);
    }
    if (status) ls_plan_drop_programs(plan);
    memcpy(plan->compiled_scales, plan->scales_before, sizeof(plan->compiled_scales));
    return status;
}

static ls_status run_segments(const struct ls_plan *plan, ls_ready_fn *ready, void *context) {
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < plan->segment_count; i++) {
        const struct ls_plan_segment *segment = &plan->segments[i];
        status = segment->program->run(segment->program);
        if (!status && segment->ready != LS_NOT_READY) ready(context, segment->ready);
    }
    return status;
}

static ls_status run_in_segments(struct ls_plan *plan, const struct ls_plan_follower *follower) {
    bool first = !plan->ran;
    ls_status status = plan->segments ? LS_OK : make_segments(plan, follower->wants, follower->context);
    if (status) return status;
    enum stand stand = look_at_scales(plan, plan->segments[0].program);
    if (first) return run_first(plan, follower->ready, follower->context);
    if (stand == DUE && compile_segments(plan)) {
        (void)snprintf(plan->refusal, sizeof(plan->refusal), "%s", ls_error());
        plan->uncompiled = true; /* an op's own error comes again */
        stand = PLAIN;
    }
    return stand == PLAIN ? run_ops(plan, follower->ready, follower->context)
                          : run_segments(plan, follower->ready, follower->context);
}

/* In oneDNN's generated matrix products (2.6.3, with AVX2 and AVX-512) the stack pointer points into the heap for a
 * while. The frame of a signal handler that ran then would overwrite what lies there: so signals wait for the end. */
static void begin_run(struct ls_plan *plan, sigset_t *before) {
    ls_plan_bind(plan);
    ls_thread_block_signals(before);
}

static ls_status end_run(ls_status status, const sigset_t *before) {
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
    return status;
}

ls_status ls_plan_run(struct ls_plan *plan, ls_ready_fn *ready, void *context) {
    sigset_t before;
    begin_run(plan, &before);
    return end_run(ready ? run_telling(plan, ready, context) : run_quietly(plan, (struct tail){NULL, 0}), &before);
}

ls_status ls_plan_run_with(struct ls_plan *plan, const struct ls_op *const *tail, size_t count) {
    sigset_t before;
    begin_run(plan, &before);
    return end_run(run_quietly(plan, (struct tail){tail, count}), &before);
}

ls_status ls_plan_run_followed(struct ls_plan *plan, const struct ls_plan_follower *follower) {
    sigset_t before;
    begin_run(plan, &before);
    return end_run(may_compile(plan) ? run_in_segments(plan, follower)
                                     : run_telling(plan, follower->ready, follower->context),
                   &before);
}

ls_status ls_plan_run_forward(struct ls_plan *plan) {
    sigset_t before;
    begin_run(plan, &before);
    return end_run(run_steps(plan, 0, plan->turn, NULL, NULL), &before);
}

ls_status ls_plan_run_backward(struct ls_plan *plan, ls_ready_fn *ready, void *context) {
    sigset_t before;
    begin_run(plan, &before);
    return end_run(run_steps(plan, plan->turn, plan->count, ready, context), &before);
}

ls_status ls_plan_run_idle(const struct ls_plan *plan) {
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < plan->count; i++) {
        const struct ls_op *op = &plan->steps[i].op;
        size_t count = ls_op_layers_exchanged(op);
        if (!count) continue;
        LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(double, nothing, count, "an exchange");
        status = op->exchange->add(op->exchange->context, nothing, count);
    }
    return status;
}
