/* Collectives between far devices: each rank meets the others in shared memory (tests/cuda/meeting.h), and goes on
 * whenever somebody asks whether all is done. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "cuda/meeting.h"
#include "far.h"

struct request {
    struct request *next;
    int mark;
    struct ls_meeting_part parts[LS_MAX_LOCAL_DEVICES];
    bool done[LS_MAX_LOCAL_DEVICES];
};
struct ls_device_group {
    int count, mark, asked; /* asked: since it was opened */
    bool aborted;
    struct ls_device_group *next; /* of those that are forgotten */
    struct far_device *devices[LS_MAX_LOCAL_DEVICES];
    struct ls_meeting *meetings[LS_MAX_LOCAL_DEVICES];
    uint64_t wanted[LS_MAX_LOCAL_DEVICES][LS_DEVICE_MARKS], reached[LS_MAX_LOCAL_DEVICES][LS_DEVICE_MARKS];
    struct request *first, **end;
};

static ls_status new_id(char id[LS_DEVICE_GROUP_ID]) {
    static _Atomic int made;
    const char *limit = getenv("LOCKSTEP_FAR_GROUPS");
    if (getenv("LOCKSTEP_FAR_NO_GROUP") || (limit && made++ >= atoi(limit)))
        return far_give(ls_fail(LS_UNAVAILABLE, "asked to make no id"));
    return ls_meeting_new_id(id) ? LS_OK : far_give(ls_fail(LS_UNAVAILABLE, "no place to meet"));
}

static void free_requests(struct ls_device_group *group) {
    for (struct request *next; group->first; group->first = next) {
        next = group->first->next;
        ls_free(group->first);
    }
}

__attribute__((visibility("default"))) _Atomic bool far_aborts_wait;

static bool is_reached(const struct ls_device_group *group) {
    for (int i = 0; i < group->count; i++)
        for (int m = 0; m < LS_DEVICE_MARKS; m++)
            if (__atomic_load_n(&group->reached[i][m], __ATOMIC_SEQ_CST) != group->wanted[i][m]) return false;
    return true;
}

static void count_ending(struct ls_device_group *group, int more) {
    far_lock();
    for (int i = 0; i < group->count; i++) group->devices[i]->ending += more;
    far_unlock();
}

/* As NCCL's it comes behind what the devices compute, and nothing is computed here before somebody waits for it. */
static void group_abort(struct ls_device_group *group) {
    count_ending(group, 1);
    while (far_aborts_wait || !is_reached(group)) (void)nanosleep(&(const struct timespec){.tv_nsec = 1000000}, NULL);
    free_requests(group);
    group->aborted = true;
}

/* Marks that are queued still are the group's: it is kept. */
static void group_forget(struct ls_device_group *group) {
    static struct ls_device_group *_Atomic kept;
    for (int i = 0; i < group->count; i++) ls_meeting_leave(group->meetings[i]);
    group->next = atomic_exchange(&kept, group);
    far_counts.forgotten++;
}

/* Marks that are queued still are the group's. */
static void group_close(struct ls_device_group *group) {
    free_requests(group);
    if (group->aborted) count_ending(group, -1);
    for (int i = 0; i < group->count; i++) {
        far_lock();
        far_do(group->devices[i], 0);
        far_unlock();
    }
    for (int i = 0; i < group->count; i++) ls_meeting_leave(group->meetings[i]);
    ls_free(group);
}

static ls_status group_open(const struct ls_device_group_config *config, struct ls_device_group **group) {
    struct ls_device_group *made = ls_alloc(sizeof(*made));
    if (!made) return far_give(ls_fail_memory("a group", sizeof(*made)));
    made->end = &made->first;
    made->mark = -1;
    for (int i = 0; i < config->count; i++) {
        made->devices[i] = (struct far_device *)config->devices[i];
        made->meetings[i] = ls_meeting_join(config->id, config->first + i, config->total);
        made->count++;
        if (made->meetings[i]) continue;
        group_close(made);
        return far_give(ls_fail(LS_UNAVAILABLE, "%s cannot meet the others", config->devices[i]->name));
    }
    *group = made;
    return LS_OK;
}

static int group_version(void) {
    const char *version = getenv("LOCKSTEP_FAR_NCCL_VERSION");
    return version ? atoi(version) : 22809;
}

static ls_status group_ready(struct ls_device_group *group, bool *done) {
    *done = ++group->asked > 2 && ls_meeting_all_joined(group->meetings[0]);
    return LS_OK;
}

static ls_status group_after(struct ls_device_group *group, int index, int mark) {
    return far_give(far_queue_mark(group->devices[index], &group->reached[index][mark], ++group->wanted[index][mark]));
}

static ls_status group_wait(struct ls_device_group *group, int mark) {
    group->mark = mark;
    return LS_OK;
}

static ls_status group_settle(struct ls_device_group *group, int index) {
    if (group->first) return far_give(ls_fail(LS_INTERNAL, "%s settles too early", group->devices[index]->device.name));
    return LS_OK;
}

/* ---- doing ---- */

static bool is_due(const struct ls_device_group *group, const struct request *request, int index) {
    int mark = request->mark;
    return mark < 0 || group->reached[index][mark] == group->wanted[index][mark];
}

static ls_status do_part(struct ls_device_group *group, struct request *request, int index) {
    struct far_device *far = group->devices[index];
    ls_status status = LS_OK;
    far_lock();
    far_do(far, 0);
    if (far->status) status = ls_fail(far->status, "%s: %s", far->device.name, far->error);
    if (!status && is_due(group, request, index)) {
        far_open_memory(far, true);
        int done = ls_meeting_ask(&request->parts[index]);
        far_open_memory(far, false);
        request->done[index] = done > 0;
        if (done < 0) status = ls_fail(LS_INTERNAL, "%s: the ranks make different calls", far->device.name);
    }
    far_unlock();
    return status;
}

static ls_status move_on(struct ls_device_group *group) {
    ls_status status = LS_OK;
    while (group->first && !status) {
        struct request *request = group->first;
        bool all = true;
        for (int i = 0; i < group->count && !status; i++) {
            if (!request->done[i]) status = do_part(group, request, i);
            all = all && request->done[i];
        }
        if (status || !all) break;
        group->first = request->next;
        if (!group->first) group->end = &group->first;
        ls_free(request);
    }
    return far_give(status);
}

static ls_status group_finished(struct ls_device_group *group, bool *done) {
    if (getenv("LOCKSTEP_FAR_NO_SUM")) return far_give(ls_fail(LS_UNAVAILABLE, "asked to add nothing"));
    ls_status status = move_on(group);
    *done = !group->first;
    return status;
}

/* ---- asking ---- */

static int type_of(ls_dtype dtype) {
    static const int types[] = {[LS_FLOAT32] = LS_MEETING_FLOAT32,
                                [LS_FLOAT64] = LS_MEETING_FLOAT64,
                                [LS_FLOAT16] = -1,
                                [LS_BFLOAT16] = -1,
                                [LS_INT32] = LS_MEETING_INT32,
                                [LS_INT64] = LS_MEETING_INT64,
                                [LS_UINT8] = -1,
                                [LS_INT8] = -1,
                                [LS_BOOL] = -1};
    return types[dtype];
}

static ls_status ask_for(struct ls_device_group *group, const struct ls_meeting_call *call, const void *const *inputs,
                         void *const *outputs) {
    struct request *made = ls_alloc(sizeof(*made));
    if (!made) return far_give(ls_fail_memory("a collective", sizeof(*made)));
    if (group->aborted || call->type < 0) {
        ls_free(made);
        return far_give(ls_fail(LS_INTERNAL, "a group that was aborted, or a type that it has not"));
    }
    made->mark = group->mark;
    for (int i = 0; i < group->count; i++)
        made->parts[i] = (struct ls_meeting_part){.meeting = group->meetings[i],
                                                  .call = *call,
                                                  .input = inputs ? inputs[i] : outputs[i],
                                                  .output = outputs[i]};
    *group->end = made;
    group->end = &made->next;
    return LS_OK;
}

static ls_status group_all_reduce(struct ls_device_group *group, ls_reduce_op op, ls_dtype dtype, void *const *arrays,
                                  size_t count) {
    static const int ops[] = {
        [LS_SUM] = LS_MEETING_SUM, [LS_MEAN] = LS_MEETING_MEAN, [LS_MIN] = LS_MEETING_MIN, [LS_MAX] = LS_MEETING_MAX};
    if (op == LS_PRODUCT) return far_give(ls_fail(LS_INTERNAL, "an op that it has not"));
    const struct ls_meeting_call call = {LS_MEETING_ALL_REDUCE, ops[op], type_of(dtype), 0, count};
    return ask_for(group, &call, NULL, arrays);
}

static ls_status group_broadcast(struct ls_device_group *group, int root, ls_dtype dtype, void *const *arrays,
                                 size_t count) {
    const struct ls_meeting_call call = {LS_MEETING_BROADCAST, 0, type_of(dtype), root, count};
    return ask_for(group, &call, NULL, arrays);
}

static ls_status group_all_gather(struct ls_device_group *group, ls_dtype dtype, const void *const *inputs,
                                  void *const *outputs, size_t count) {
    const struct ls_meeting_call call = {LS_MEETING_ALL_GATHER, 0, type_of(dtype), 0, count};
    return ask_for(group, &call, inputs, outputs);
}

static ls_status group_reduce_scatter(struct ls_device_group *group, ls_reduce_op op, ls_dtype dtype,
                                      const void *const *inputs, void *const *outputs, size_t count) {
    const struct ls_meeting_call call = {LS_MEETING_REDUCE_SCATTER, (int)op, type_of(dtype), 0, count};
    return ask_for(group, &call, inputs, outputs);
}

const struct ls_device_group_ops far_group_ops = {.version = group_version,
                                                  .new_id = new_id,
                                                  .open = group_open,
                                                  .ready = group_ready,
                                                  .after = group_after,
                                                  .wait = group_wait,
                                                  .settle = group_settle,
                                                  .all_reduce = group_all_reduce,
                                                  .broadcast = group_broadcast,
                                                  .all_gather = group_all_gather,
                                                  .reduce_scatter = group_reduce_scatter,
                                                  .finished = group_finished,
                                                  .abort = group_abort,
                                                  .close = group_close,
                                                  .forget = group_forget};
