/* NCCL, as far as the plugin calls it, for the emulated GPUs: its ranks meet in shared memory, also those of other
 * processes. Adding is a piece of work on a stream, which is not done before all ranks have come. Calls that NCCL would
 * hang on are refused: outside of a group where the process has several ranks, or before it has taken those before.
 * Environment: LOCKSTEP_EMULATED_NCCL_FAILS, there is no id; LOCKSTEP_EMULATED_NCCL_STUCK, no abort ever ends;
 * LOCKSTEP_EMULATED_NCCL_VERSION (that of the header); LOCKSTEP_EMULATED_NCCL_DIES=N,MS, with the N-th all-reduce the
 * process is lost to NCCL of the others, and so many milliseconds later it ends. */
#define _GNU_SOURCE
#include <nccl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "meeting.h"
#include "runtime.h"

#define MOST  64
#define ASKED 3 /* questions until a call is taken */

struct ncclComm {
    struct ls_meeting *meeting;
    int rank, total, device;
    int questions;                  /* since the last call */
    _Atomic int references, failed; /* failed: a result, that of the work on its stream too, which may outlive it */
    bool alone;                     /* the process has no other rank of it */
};

static _Thread_local struct {
    int depth, count;
    struct ncclComm *given[MOST]; /* those that were called in the group */
    bool making;
} grouped;

ncclResult_t ncclGetVersion(int *version) {
    const char *text = getenv("LOCKSTEP_EMULATED_NCCL_VERSION");
    *version = text ? atoi(text) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const words[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (unsigned)result < sizeof(words) / sizeof(words[0]) ? words[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    _Static_assert(sizeof(id->internal) >= LS_MEETING_NAME, "the name is the id");
    memset(id, 0, sizeof(*id));
    if (getenv("LOCKSTEP_EMULATED_NCCL_FAILS")) return ncclSystemError;
    return ls_meeting_new_id(id->internal) ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclGroupStart(void); /* which nccl.h declares as C did once */
ncclResult_t ncclGroupStart(void) {
    if (!grouped.depth++) grouped.count = 0, grouped.making = false;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void); /* as above */
/* A process that makes several ranks does it in one group, and calls them so ever after. */
ncclResult_t ncclGroupEnd(void) {
    if (!grouped.depth) return ncclInvalidUsage;
    if (--grouped.depth) return ncclSuccess;
    if (grouped.making)
        for (int i = 0; i < grouped.count; i++) grouped.given[i]->alone = grouped.count == 1;
    return grouped.count ? ncclInProgress : ncclSuccess;
}

static ncclResult_t note_call(struct ncclComm *comm) {
    if (!grouped.depth && !comm->alone) return ncclInvalidUsage;
    if (!grouped.depth) return ncclSuccess;
    for (int i = 0; i < grouped.count; i++)
        if (grouped.given[i] == comm) return ncclSuccess;
    if (grouped.count == MOST) return ncclInvalidUsage;
    grouped.given[grouped.count++] = comm;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    int device = 0;
    if (!config || config->blocking || rank < 0 || rank >= nranks || nranks > LS_MEETING_RANKS)
        return ncclInvalidArgument;
    if (cudaGetDevice(&device) != cudaSuccess) return ncclUnhandledCudaError;
    struct ncclComm *made = calloc(1, sizeof(*made));
    if (!made) return ncclSystemError;
    made->references = 1;
    made->meeting = ls_meeting_join(id.internal, rank, nranks);
    made->rank = rank;
    made->total = nranks;
    made->device = device;
    made->alone = true;
    if (!made->meeting) made->failed = ncclRemoteError;
    *comm = made;
    grouped.making = true;
    return grouped.depth ? note_call(made) : ncclInProgress;
}

/* Every call is taken only after some questions, and none before all ranks are there. The end of another rank's process
 * is heard at once. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    if (!comm) return ncclInvalidArgument;
    if (comm->failed == ncclSuccess && ls_meeting_has_lost(comm->meeting)) comm->failed = ncclRemoteError;
    *error = (ncclResult_t)comm->failed;
    if (*error != ncclSuccess) return ncclSuccess;
    if (!ls_meeting_all_joined(comm->meeting) || ++comm->questions < ASKED) *error = ncclInProgress;
    return ncclSuccess;
}

/* ---- work ---- */

struct work {
    struct ls_meeting_part part;
    struct ncclComm *comm;
};

static void let_go(struct ncclComm *comm) {
    if (atomic_fetch_sub(&comm->references, 1) > 1) return;
    ls_meeting_leave(comm->meeting);
    free(comm);
}

static int work_run(void *argument) {
    struct work *work = argument;
    bool ended = work->comm->failed != ncclSuccess; /* aborted, or failed before */
    int done = ended ? 1 : ls_meeting_ask(&work->part);
    if (done < 0) work->comm->failed = ncclInvalidUsage;
    if (done) let_go(work->comm);
    return done != 0;
}

static int type_of(ncclDataType_t type) {
    switch (type) {
    case ncclFloat32:
        return LS_MEETING_FLOAT32;
    case ncclFloat64:
        return LS_MEETING_FLOAT64;
    case ncclInt32:
        return LS_MEETING_INT32;
    case ncclInt64:
        return LS_MEETING_INT64;
    default:
        return -1;
    }
}

static int op_of(ncclRedOp_t op) {
    return op == ncclAvg   ? LS_MEETING_MEAN
           : op == ncclMin ? LS_MEETING_MIN
           : op == ncclMax ? LS_MEETING_MAX
                           : LS_MEETING_SUM;
}

static ncclResult_t check_call(const struct ncclComm *comm, const struct work *work, cudaStream_t stream) {
    const struct ls_meeting_call *call = &work->part.call;
    size_t bytes = (size_t)call->count * (call->type == LS_MEETING_FLOAT32 || call->type == LS_MEETING_INT32 ? 4 : 8);
    size_t all = bytes * (size_t)comm->total;
    bool gathers = call->kind == LS_MEETING_ALL_GATHER, scatters = call->kind == LS_MEETING_REDUCE_SCATTER;
    if (call->type < 0 || ls_emulated_stream_device(stream) != comm->device) return ncclInvalidArgument;
    if (!ls_emulated_is_device(work->part.input, scatters ? all : bytes)) return ncclInvalidArgument;
    if (!ls_emulated_is_device(work->part.output, gathers ? all : bytes)) return ncclInvalidArgument;
    return comm->questions < ASKED ? ncclInvalidUsage : ncclSuccess; /* it was not asked whether it is ready */
}

static ncclResult_t queue(struct ncclComm *comm, struct work work, cudaStream_t stream) {
    if (!comm) return ncclInvalidArgument;
    ncclResult_t result = check_call(comm, &work, stream);
    if (result == ncclSuccess) result = note_call(comm);
    if (result != ncclSuccess) return result;
    work.part.meeting = comm->meeting;
    work.comm = comm;
    comm->questions = 0;
    if (!work.part.call.count) return ncclSuccess;
    atomic_fetch_add(&comm->references, 1);
    if (ls_emulated_queue(stream, work_run, &work, sizeof(work)) == cudaSuccess) return ncclInProgress;
    let_go(comm);
    return ncclUnhandledCudaError;
}

static struct work work_of(enum ls_meeting_kind kind, const void *input, void *output, size_t count,
                           ncclDataType_t type) {
    return (struct work){.part = {.call = {.kind = (int32_t)kind, .type = type_of(type), .count = count},
                                  .input = input,
                                  .output = output}};
}

static void die_in_time(struct ncclComm *comm) {
    static _Atomic int calls;
    const char *text = getenv("LOCKSTEP_EMULATED_NCCL_DIES");
    int last = 0, delay = 0;
    if (!text || sscanf(text, "%d,%d", &last, &delay) != 2 || ++calls != last) return;
    ls_meeting_vanish(comm->meeting);
    (void)nanosleep(&(const struct timespec){delay / 1000, delay % 1000 * 1000000L}, NULL);
    (void)raise(SIGKILL);
}

ncclResult_t ncclAllReduce(const void *input, void *output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    struct work work = work_of(LS_MEETING_ALL_REDUCE, input, output, count, type);
    work.part.call.op = op_of(op);
    if (comm) die_in_time(comm);
    return queue(comm, work, stream);
}

ncclResult_t ncclBroadcast(const void *input, void *output, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    struct work work = work_of(LS_MEETING_BROADCAST, input, output, count, type);
    work.part.call.root = root;
    return queue(comm, work, stream);
}

ncclResult_t ncclAllGather(const void *input, void *output, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    return queue(comm, work_of(LS_MEETING_ALL_GATHER, input, output, count, type), stream);
}

ncclResult_t ncclReduceScatter(const void *input, void *output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
    struct work work = work_of(LS_MEETING_REDUCE_SCATTER, input, output, count, type);
    work.part.call.op = op_of(op);
    return queue(comm, work, stream);
}

/* Work on streams ends without having been done. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (!comm) return ncclSuccess;
    if (getenv("LOCKSTEP_EMULATED_NCCL_STUCK")) ls_emulated_never_ends();
    while (getenv("LOCKSTEP_EMULATED_NCCL_STUCK")) (void)nanosleep(&(const struct timespec){.tv_nsec = 1000000}, NULL);
    comm->failed = ncclRemoteError;
    let_go(comm);
    return ncclSuccess;
}
