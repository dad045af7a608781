/* The CPU's ops, done later. */
#include "base/memory.h"
#include "base/status.h"
#include "device/op_layers.h"
#include "far.h"

struct far_op {
    struct far_device *far;
    ls_op_run_fn *run; /* the CPU's */
    void *handle;
    struct ls_optimizer_step step; /* an optimizer's, at its last run or renewal */
};

/* ---- exchanges: errors of the host's come back as such ---- */

struct exchange {
    const struct ls_exchange *host;
};

static ls_status add(void *context, double *values, size_t count) {
    const struct exchange *exchange = context;
    ls_status status = exchange->host->add(exchange->host->context, values, count);
    return status ? ls_fail(status, "%s", far_host->error()) : LS_OK;
}

/* In the middle of a step: all before it must be done. */
static ls_status run_exchanging(struct far_device *far, const struct ls_op *op, const struct far_op *own) {
    struct exchange exchange = {op->exchange};
    const struct ls_exchange wrapped = {add, &exchange};
    struct ls_op copy = *op;
    struct ls_thread_state before;
    ls_status status = far_synchronize(&far->device);
    if (status) return status;
    copy.exchange = &wrapped;
    copy.handle = own->handle;
    far_lock();
    far_open_memory(far, true);
    far_unlock(); /* the other replicas may come */
    status = far->inner->ops->enter(far->inner, &before);
    if (!status) status = own->run(&copy);
    far->inner->ops->leave(far->inner, &before);
    far_lock();
    far_open_memory(far, false);
    far_unlock();
    return far_give(status);
}

static bool is_optimizer(const struct ls_op *op) {
    return op->kind == LS_OP_SGD || op->kind == LS_OP_ADAM || op->kind == LS_OP_RMSPROP || op->kind == LS_OP_LAMB;
}

static ls_status far_renew(const struct ls_op *op) {
    ((struct far_op *)op->handle)->step = *op->step;
    return LS_OK;
}

static ls_status far_run(const struct ls_op *op) {
    const struct far_op *own = op->handle;
    if (ls_op_layers_exchanged(op)) return run_exchanging(own->far, op, own);
    if (is_optimizer(op)) (void)far_renew(op);
    return far_queue_op(own->far, op);
}

ls_status far_run_task(struct far_device *far, struct far_task *task) {
    struct ls_op op = task->op;
    const struct far_op *own = op.handle;
    if (is_optimizer(&op) && far->failing && --far->failing == 0)
        return ls_fail(LS_INTERNAL, "%s: asked to fail", ls_op_name(op.kind));
    op.handle = own->handle;
    if (op.scale) op.scale = &task->scale;
    if (is_optimizer(&op)) op.step = &own->step;
    return own->run(&op);
}

static ls_status check_reach(const struct ls_op *op) {
    const struct {
        const char *name;
        const void *memory;
        size_t size;
    } all[] = {
        {"scale", op->scale, sizeof(*op->scale)},
        {"sums", op->sums, sizeof(*op->sums)},
        {"gathered", op->gathered, sizeof(*op->gathered)},
        {"report", op->report, op->report ? (size_t)op->tensors[LS_ARG_Y].shape.dims[0] * sizeof(float) : 0},
        {"value", op->value, sizeof(*op->value)},
        {"step", op->step, sizeof(*op->step)},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].memory && !far_reaches(all[i].memory, all[i].size))
            return ls_fail(LS_INVALID_ARGUMENT, "%s: %s lies in memory that the device does not reach",
                           ls_op_name(op->kind), all[i].name);
    return LS_OK;
}

/* oneDNN divides work among the threads that there are when an op is built. */
static ls_status build_inner(struct far_device *far, struct ls_op *op) {
    struct ls_thread_state before;
    ls_status status = far->inner->ops->enter(far->inner, &before);
    if (status) return status;
    status = far->inner->ops->build(far->inner, op);
    far->inner->ops->leave(far->inner, &before);
    return status;
}

ls_status far_build(struct ls_device *device, struct ls_op *op) {
    struct far_device *far = (struct far_device *)device;
    struct far_op *own = ls_alloc(sizeof(*own));
    ls_status status = own ? check_reach(op) : ls_fail_memory("a far op", sizeof(*own));
    if (!status) status = build_inner(far, op);
    if (status) {
        ls_free(own);
        return far_give(status);
    }
    *own = (struct far_op){.far = far, .run = op->run, .handle = op->handle};
    op->run = far_run;
    if (is_optimizer(op)) op->renew = far_renew;
    op->handle = own;
    return LS_OK;
}

void far_discard(struct ls_device *device, struct ls_op *op) {
    struct far_device *far = (struct far_device *)device;
    struct far_op *own = op->handle;
    op->run = own->run;
    op->renew = NULL;
    op->handle = own->handle;
    far->inner->ops->discard(far->inner, op);
    ls_free(own);
}
