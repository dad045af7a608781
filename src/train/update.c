/* The ops that a replica runs in a step beside forward and backward: at most one of each kind, built once. */
#include "train/update.h"

#include "train/model.h"

ls_status ls_update_add(struct ls_model_replica *replica, enum ls_update_kind kind, const struct ls_op *op) {
    struct ls_update *update = &replica->updates[kind];
    update->op = *op;
    ls_status status = replica->device->ops->build(replica->device, &update->op);
    update->built = !status;
    return status;
}

bool ls_update_has(const struct ls_model_replica *replica, enum ls_update_kind kind) {
    return replica->updates[kind].built;
}

ls_status ls_update_run(const struct ls_model_replica *replica, enum ls_update_kind kind) {
    const struct ls_update *update = &replica->updates[kind];
    return update->built ? update->op.run(&update->op) : LS_OK;
}

size_t ls_update_list(const struct ls_model_replica *replica, const struct ls_op *ops[LS_UPDATE_KINDS]) {
    size_t count = 0;
    for (int i = -1; i < LS_UPDATE_REPORT; i++) {
        const struct ls_update *update = &replica->updates[i < 0 ? LS_UPDATE_REPORT : i];
        if (update->built) ops[count++] = &update->op;
    }
    return count;
}

ls_status ls_update_apply(const struct ls_model_replica *replica) {
    bool goes_on = true;
    ls_status status = LS_OK;
    for (int kind = 0; !status && goes_on && kind < LS_UPDATE_REPORT; kind++) {
        const struct ls_update *update = &replica->updates[kind];
        status = ls_update_run(replica, (enum ls_update_kind)kind);
        if (!status && update->look) status = update->look(replica, &goes_on);
    }
    return status;
}

void ls_update_discard(struct ls_model_replica *replica, enum ls_update_kind first) {
    for (int kind = (int)first; kind < LS_UPDATE_KINDS; kind++) {
        struct ls_update *update = &replica->updates[kind];
        if (update->built) replica->device->ops->discard(replica->device, &update->op);
        *update = (struct ls_update){.op = update->op};
    }
}
