/* Collectives between GPUs by NCCL. Its communicators do not block: a request waits here until NCCL has taken the
 * requests before it, and is handed on when a caller asks for the progress of the group. Each GPU has a stream for
 * them. */
#include <string.h>

#include "base/new.h"
#include "device/cuda/cuda.h"
#include "device/cuda/nccl.h"

enum kind { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER };
struct request {
    struct request *next;
    enum kind kind;
    int mark; /* that it waits for; -1 if none */
    int root;
    ncclRedOp_t op;
    ncclDataType_t dtype;
    size_t count;
    const void *inputs[LS_MAX_LOCAL_DEVICES];
    void *outputs[LS_MAX_LOCAL_DEVICES];
};
struct member {
    struct ls_cuda_device *device; /* borrowed */
    int index;                     /* the device's, for abort */
    ncclComm_t communicator;
    cudaStream_t stream;
    cudaEvent_t marks[LS_DEVICE_MARKS]; /* NULL until the mark is used */
};
struct ls_device_group {
    struct member *members; /* owns */
    int count, total, rank; /* rank: of the first member */
    char id[LS_DEVICE_GROUP_ID];
    bool begun;                   /* to connect */
    int mark;                     /* of the next request */
    struct request *first, **end; /* not handed on yet; owns */
};

/* ---- errors and names ---- */

static ls_status check_result(const struct member *member, ncclResult_t result, const char *what) {
    const char *name = member->device->device.name;
    if (result == ncclSuccess || result == ncclInProgress) return LS_OK;
    const char *more = member->communicator ? ncclGetLastError(member->communicator) : NULL;
    bool others = result == ncclRemoteError || result == ncclSystemError; /* else the next group would fail alike */
    return ls_fail(others ? LS_UNAVAILABLE : LS_INTERNAL, "%s: NCCL, %s: %s%s%s", name, what,
                   ncclGetErrorString(result), more && *more ? ": " : "", more ? more : "");
}

static ncclDataType_t nccl_type(ls_dtype dtype) {
    static const ncclDataType_t types[] = {
        [LS_FLOAT32] = ncclFloat32,   [LS_FLOAT64] = ncclFloat64, [LS_FLOAT16] = ncclFloat16,
        [LS_BFLOAT16] = ncclBfloat16, [LS_INT32] = ncclInt32,     [LS_INT64] = ncclInt64,
        [LS_UINT8] = ncclUint8,       [LS_INT8] = ncclInt8,       [LS_BOOL] = ncclUint8};
    return types[dtype];
}

static ncclRedOp_t op_of(ls_reduce_op op, ls_dtype dtype) {
    static const ncclRedOp_t ops[] = {
        [LS_SUM] = ncclSum, [LS_MEAN] = ncclAvg, [LS_MIN] = ncclMin, [LS_MAX] = ncclMax, [LS_PRODUCT] = ncclProd};
    if (dtype == LS_BOOL) op = op == LS_SUM ? LS_MAX : op == LS_PRODUCT ? LS_MIN : op; /* of bytes that are 0 or 1 */
    return ops[op];
}

/* ---- making it ---- */

static ls_status new_id(char id[LS_DEVICE_GROUP_ID]) {
    ncclUniqueId made;
    _Static_assert(sizeof(made) == LS_DEVICE_GROUP_ID, "an id is passed on as bytes");
    ncclResult_t result = ncclGetUniqueId(&made);
    if (result != ncclSuccess) return ls_fail(LS_UNAVAILABLE, "NCCL, making an id: %s", ncclGetErrorString(result));
    memcpy(id, &made, sizeof(made));
    return LS_OK;
}

static ls_status open_stream(struct member *member) {
    int least = 0, greatest = 0;
    ls_status status = ls_cuda_enter(member->device);
    if (status) return status;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (error == cudaSuccess) error = cudaStreamCreateWithPriority(&member->stream, cudaStreamNonBlocking, greatest);
    return ls_cuda_check(member->device, error, "making a stream");
}

/* Opens all communicators of this process in one group call; else each would wait for the others. */
static ls_status open_communicators(struct ls_device_group *group) {
    ncclConfig_t options = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ls_status status = LS_OK;
    options.blocking = 0;
    memcpy(&id, group->id, sizeof(id));
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; !status && i < group->count; i++) {
        struct member *member = &group->members[i];
        status = ls_cuda_enter(member->device);
        if (status) break;
        result = ncclCommInitRankConfig(&member->communicator, group->total, id, group->rank + i, &options);
        status = check_result(member, result, "beginning to connect");
    }
    result = ncclGroupEnd();
    return status ? status : check_result(&group->members[0], result, "beginning to connect");
}

/* NCCL's kernels on one of the GPUs may reach for the memory of another. */
static ls_status admit_each_other(const struct ls_device_group *group) {
    ls_status status = LS_OK;
    for (int i = 0; !status && i < group->count; i++)
        for (int k = 0; !status && k < group->count; k++)
            status = ls_cuda_admit(group->members[i].device, group->members[k].device);
    return status;
}

static void group_close(struct ls_device_group *group);

static ls_status group_open(const struct ls_device_group_config *config, struct ls_device_group **group) {
    LS_NEW(struct ls_device_group, made, "a group of GPUs");
    made->members = ls_alloc_array((size_t)config->count, sizeof(*made->members));
    if (!made->members) {
        ls_free(made);
        return ls_fail_memory("a group of GPUs", (size_t)config->count * sizeof(*made->members));
    }
    ls_status status = LS_OK;
    made->mark = -1;
    made->end = &made->first;
    made->count = config->count;
    made->rank = config->first;
    made->total = config->total;
    memcpy(made->id, config->id, sizeof(made->id));
    for (int i = 0; i < config->count; i++) {
        made->members[i].device = (struct ls_cuda_device *)config->devices[i];
        made->members[i].index = made->members[i].device->index;
    }
    for (int i = 0; !status && i < config->count; i++) status = open_stream(&made->members[i]);
    if (!status) status = admit_each_other(made);
    return LS_HAND_OVER(status, group, made, group_close(made));
}

/* Whether NCCL has taken all that it was given; an error of any member. */
static ls_status is_idle(const struct ls_device_group *group, bool *idle) {
    bool all = true;
    for (int i = 0; i < group->count; i++) {
        const struct member *member = &group->members[i];
        ncclResult_t state = ncclSuccess;
        ncclResult_t result = ncclCommGetAsyncError(member->communicator, &state);
        ls_status status = check_result(member, result, "asking for errors");
        if (!status) status = check_result(member, state, "between the GPUs");
        if (status) return status;
        all = all && state == ncclSuccess;
    }
    *idle = all;
    return LS_OK;
}

static void free_requests(struct ls_device_group *group) {
    for (struct request *next; group->first; group->first = next) {
        next = group->first->next;
        ls_free(group->first);
    }
    group->end = &group->first;
}

/* NCCL first ends its work on the GPUs. Then it releases its memory, and may wait for other processes of this host. It
 * reads the current device, which must not be one that this process does not use. */
static void group_abort(struct ls_device_group *group) {
    free_requests(group);
    for (int i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        if (!member->communicator) continue;
        (void)cudaSetDevice(member->index);
        (void)ncclCommAbort(member->communicator);
        member->communicator = NULL;
    }
}

/* CUDA releases a stream when the work queued there has ended: nothing waits here. */
static void group_forget(struct ls_device_group *group) {
    free_requests(group);
    for (int i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        (void)cudaSetDevice(member->index);
        for (int m = 0; m < LS_DEVICE_MARKS; m++)
            if (member->marks[m]) (void)cudaEventDestroy(member->marks[m]);
        if (member->stream) (void)cudaStreamDestroy(member->stream);
    }
    ls_free(group->members);
    ls_free(group);
}

/* The arrays are given back next. */
static void group_close(struct ls_device_group *group) {
    for (int i = 0; i < group->count; i++) {
        struct member *member = &group->members[i];
        if (!member->stream || ls_cuda_enter(member->device)) continue;
        (void)ls_cuda_wait(member->device, member->stream, "ending NCCL");
    }
    group_forget(group);
}

/* ---- order ---- */

static ls_status group_after(struct ls_device_group *group, int index, int mark) {
    struct member *member = &group->members[index];
    struct ls_cuda_device *device = member->device;
    if (mark < 0 || mark >= LS_DEVICE_MARKS)
        return ls_fail(LS_INTERNAL, "%s: mark %d is none", device->device.name, mark);
    ls_status status = ls_cuda_enter(device);
    if (status) return status;
    cudaError_t error = cudaSuccess;
    if (!member->marks[mark]) error = cudaEventCreateWithFlags(&member->marks[mark], cudaEventDisableTiming);
    if (error == cudaSuccess) error = cudaEventRecord(member->marks[mark], device->stream);
    return ls_cuda_check(device, error, "marking what NCCL adds");
}

static ls_status group_wait(struct ls_device_group *group, int mark) {
    group->mark = mark;
    return LS_OK;
}

static ls_status group_settle(struct ls_device_group *group, int index) {
    struct member *member = &group->members[index];
    ls_status status = ls_cuda_enter(member->device);
    return status ? status : ls_cuda_join(member->device, member->stream, member->device->stream);
}

/* ---- handing on ---- */

static ls_status await_mark(struct member *member, int mark) {
    if (mark < 0) return LS_OK;
    if (!member->marks[mark]) return ls_fail(LS_INTERNAL, "%s: mark %d was not set", member->device->device.name, mark);
    return ls_cuda_check(member->device, cudaStreamWaitEvent(member->stream, member->marks[mark], 0),
                         "ordering NCCL behind ops");
}

static ncclResult_t call_nccl(const struct request *r, int i, const struct member *m) {
    const void *in = r->inputs[i];
    void *out = r->outputs[i];
    switch (r->kind) {
    case ALL_REDUCE:
        return ncclAllReduce(in, out, r->count, r->dtype, r->op, m->communicator, m->stream);
    case BROADCAST:
        return ncclBroadcast(in, out, r->count, r->dtype, r->root, m->communicator, m->stream);
    case ALL_GATHER:
        return ncclAllGather(in, out, r->count, r->dtype, m->communicator, m->stream);
    default:
        return ncclReduceScatter(in, out, r->count, r->dtype, r->op, m->communicator, m->stream);
    }
}

static ls_status hand_on(struct ls_device_group *group, const struct request *request) {
    ls_status status = LS_OK;
    for (int i = 0; !status && i < group->count; i++) {
        status = ls_cuda_enter(group->members[i].device);
        if (!status) status = await_mark(&group->members[i], request->mark);
    }
    if (status) return status;
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; !status && i < group->count; i++) {
        result = call_nccl(request, i, &group->members[i]);
        status = check_result(&group->members[i], result, "a collective");
    }
    result = ncclGroupEnd();
    return status ? status : check_result(&group->members[0], result, "a collective");
}

/* Hands as many requests to NCCL as it takes now. */
static ls_status move_on(struct ls_device_group *group, bool *idle) {
    ls_status status = is_idle(group, idle);
    while (!status && *idle && group->first) {
        struct request *request = group->first;
        status = hand_on(group, request);
        group->first = request->next;
        if (!group->first) group->end = &group->first;
        ls_free(request);
        if (!status) status = is_idle(group, idle);
    }
    return status;
}

static ls_status ask_for(struct ls_device_group *group, const struct request *request) {
    bool idle;
    LS_NEW(struct request, made, "a collective");
    *made = *request;
    made->next = NULL;
    made->mark = group->mark;
    *group->end = made;
    group->end = &made->next;
    return move_on(group, &idle);
}

static struct request request_of(const struct ls_device_group *group, enum kind kind, const void *const *inputs,
                                 void *const *outputs) {
    struct request request = {.kind = kind};
    for (int i = 0; i < group->count; i++) {
        request.inputs[i] = inputs ? inputs[i] : outputs[i];
        request.outputs[i] = outputs[i];
    }
    return request;
}

/* ---- the table ---- */

/* Opens the communicators at the first call. The caller may abort an opened group in bounded time. */
static ls_status group_ready(struct ls_device_group *group, bool *done) {
    ls_status status = group->begun ? LS_OK : open_communicators(group);
    group->begun = true;
    return status ? status : is_idle(group, done);
}

static ls_status group_all_reduce(struct ls_device_group *group, ls_reduce_op op, ls_dtype dtype, void *const *arrays,
                                  size_t count) {
    struct request request = request_of(group, ALL_REDUCE, NULL, arrays);
    request.op = op_of(op, dtype);
    request.dtype = nccl_type(dtype);
    request.count = count;
    return ask_for(group, &request);
}

static ls_status group_broadcast(struct ls_device_group *group, int root, ls_dtype dtype, void *const *arrays,
                                 size_t count) {
    struct request request = request_of(group, BROADCAST, NULL, arrays);
    request.root = root;
    request.dtype = nccl_type(dtype);
    request.count = count;
    return ask_for(group, &request);
}

static ls_status group_all_gather(struct ls_device_group *group, ls_dtype dtype, const void *const *inputs,
                                  void *const *outputs, size_t count) {
    struct request request = request_of(group, ALL_GATHER, inputs, outputs);
    request.dtype = nccl_type(dtype);
    request.count = count;
    return ask_for(group, &request);
}

static ls_status group_reduce_scatter(struct ls_device_group *group, ls_reduce_op op, ls_dtype dtype,
                                      const void *const *inputs, void *const *outputs, size_t count) {
    struct request request = request_of(group, REDUCE_SCATTER, inputs, outputs);
    request.op = op_of(op, dtype);
    request.dtype = nccl_type(dtype);
    request.count = count;
    return ask_for(group, &request);
}

/* Asks NCCL for its queued work first, then all streams. */
static ls_status group_finished(struct ls_device_group *group, bool *done) {
    bool idle = false;
    ls_status status = move_on(group, &idle);
    bool all = !status && idle && !group->first;
    for (int i = 0; !status && i < group->count; i++) {
        const struct member *member = &group->members[i];
        cudaError_t error = ls_cuda_answer(cudaStreamQuery(member->stream));
        all = all && error == cudaSuccess;
        if (error != cudaErrorNotReady) status = ls_cuda_check(member->device, error, "a collective of NCCL");
    }
    *done = !status && all;
    return status;
}

static const struct ls_device_group_ops ops = {.version = ls_cuda_nccl_version,
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

const struct ls_device_group_ops *ls_cuda_group(char *why, size_t size) {
    return ls_cuda_nccl_fits(why, size) ? &ops : NULL;
}
