/* The collectives: each checks its arguments, writes its fingerprint, lays out a schedule and has it executed. The
 * counterpart of TensorFlow's CollectiveOps behind CollectiveAllReduceExtended. A failure of any kind raises the abort
 * flag: the ranks are no longer at the same call. */
#include "collective/group.h"

#include <stdint.h>

#include "base/denormal.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "collective/executor.h"
#include "collective/push.h"
#include "collective/reduction.h"

enum { MAX_LEAVES = 1 << 20, MIN_SEGMENT = 64, DEFAULT_SEGMENT = 256 * 1024 };
#define MAX_SEGMENT ((size_t)1 << 30)

struct ls_group {
    struct ls_executor executor;
    struct ls_schedule schedule;
    uint64_t generation, sequence;
    int *first;             /* [size + 1]: one leaf a worker */
    unsigned char *scratch; /* grows */
    size_t scratch_size;
    enum ls_transport transport;
    struct ls_shared *shared; /* NULL: links only */
};

/* ---- making and freeing ---- */

static ls_status check_config(const struct ls_group_config *config) {
    if (config->size < 1 || config->rank < 0 || config->rank >= config->size)
        return ls_fail(LS_INVALID_ARGUMENT, "rank %d of a group of %d: rank must be 0 to size - 1", config->rank,
                       config->size);
    if (!config->abort) return ls_fail(LS_INVALID_ARGUMENT, "a group needs an abort flag");
    if (config->size == 1) return LS_OK;
    if (!config->links) return ls_fail(LS_INVALID_ARGUMENT, "a group of %d needs links", config->size);
    for (int i = 0; i < config->size; i++)
        if ((i == config->rank) != !config->links[i])
            return ls_fail(LS_INVALID_ARGUMENT, "rank %d of %d: links[%d] must%s be NULL", config->rank, config->size,
                           i, i == config->rank ? "" : " not");
    return LS_OK;
}

static size_t segment_of(const struct ls_group_config *config) {
    if (!config->segment) return DEFAULT_SEGMENT;
    if (config->segment < MIN_SEGMENT) return MIN_SEGMENT;
    return config->segment < MAX_SEGMENT ? config->segment : MAX_SEGMENT;
}

static bool allocate(struct ls_group *group) {
    struct ls_executor *executor = &group->executor;
    size_t size = (size_t)executor->size;
    executor->peers = ls_alloc_array(size, sizeof(*executor->peers));
    executor->polls = ls_alloc_array(size, sizeof(*executor->polls));
    executor->staging = ls_alloc_aligned(executor->segment + sizeof(double));
    group->first = ls_alloc_array(size + 1, sizeof(*group->first));
    return executor->peers && executor->polls && executor->staging && group->first &&
           !ls_schedule_init(&group->schedule, executor->size);
}

static void take_links(struct ls_group *group, struct ls_link **links) {
    int size = group->executor.size;
    for (int i = 0; i <= size; i++) group->first[i] = i;
    for (int i = 0; i < size && size > 1; i++) group->executor.peers[i].link = links[i];
}

ls_status ls_group_new(const struct ls_group_config *config, struct ls_group **group) {
    ls_status status = check_config(config);
    if (status) return status;
    struct ls_group *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a group", sizeof(*made));
    made->generation = config->generation;
    made->transport = config->transport;
    made->executor = (struct ls_executor){.rank = config->rank,
                                          .size = config->size,
                                          .abort = config->abort,
                                          .log = config->log,
                                          .timeout = config->timeout,
                                          .report_interval = config->report_interval,
                                          .segment = segment_of(config)};
    if (!allocate(made)) {
        ls_group_free(made);
        return ls_fail_memory("a group", (size_t)config->size * sizeof(struct ls_peer));
    }
    take_links(made, config->links);
    *group = made;
    return LS_OK;
}

void ls_group_free(struct ls_group *group) {
    if (!group) return;
    struct ls_executor *executor = &group->executor;
    for (int i = 0; executor->peers && i < executor->size; i++)
        if (executor->peers[i].link) executor->peers[i].link->ops->close(executor->peers[i].link);
    ls_free(executor->peers);
    ls_free(executor->polls);
    ls_free(executor->staging);
    ls_schedule_free(&group->schedule);
    ls_free(group->first);
    ls_free(group->scratch);
    ls_shared_free(group->shared);
    ls_free(group);
}

int ls_group_rank(const struct ls_group *group) {
    return group->executor.rank;
}

int ls_group_size(const struct ls_group *group) {
    return group->executor.size;
}

/* ---- what all collectives share ---- */

static ls_status check_name(const char *name) {
    return name ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "a collective needs a name");
}

/* count elements of dtype as bytes that fit a pointer difference. */
static ls_status check_bytes(const char *name, ls_dtype dtype, size_t count) {
    ls_status status = ls_dtype_check(dtype);
    if (!status && count > PTRDIFF_MAX / ls_dtype_size(dtype))
        status =
            ls_fail(LS_INVALID_ARGUMENT, "count %zu of %s is more than memory can hold", count, ls_dtype_name(dtype));
    return status ? ls_fail_context(status, "collective '%s'", name) : LS_OK;
}

static ls_status missing_memory(const char *name, const char *which) {
    return ls_fail(LS_INVALID_ARGUMENT, "collective '%s': %s is NULL", name, which);
}

static struct ls_call begin(struct ls_group *group, enum ls_collective_kind kind, const char *name, ls_dtype dtype,
                            size_t count) {
    struct ls_call call = {.frame = {.generation = group->generation,
                                     .sequence = group->sequence++,
                                     .count = count,
                                     .rank = group->executor.rank,
                                     .size = group->executor.size,
                                     .root = -1,
                                     .kind = (int32_t)kind,
                                     .dtype = (int32_t)dtype}};
    ls_frame_name(&call.frame, name);
    ls_schedule_reset(&group->schedule, 1);
    return call;
}

static ls_status run(struct ls_group *group, const struct ls_call *call) {
    if (group->schedule.out_of_memory) return ls_fail(LS_RESOURCE_EXHAUSTED, "no memory for a collective's schedule");
    return ls_execute(&group->executor, &group->schedule, call);
}

/* Makes every failure the group's: the first cause counts, here and for later calls. */
static ls_status finish(struct ls_group *group, ls_status status) {
    if (!status) return LS_OK;
    ls_abort_raise(group->executor.abort, status, ls_error());
    return ls_abort_status(group->executor.abort);
}

/* ---- shared memory ---- */

bool ls_group_shares(const struct ls_group *group) {
    return group->shared != NULL;
}

const char *ls_group_describe(const struct ls_group *group) {
    if (group->shared) return "shared memory";
    for (int i = 0; i < group->executor.size; i++)
        if (group->executor.peers[i].link) return group->executor.peers[i].link->ops->name;
    return "none";
}

static ls_status connect_shared(struct ls_group *group) {
    char reason[256] = "";
    const struct ls_executor *executor = &group->executor;
    ls_status status =
        ls_shared_open(group, group->transport != LS_TRANSPORT_TCP, &group->shared, reason, sizeof(reason));
    if (status) return status;
    if (!group->shared && group->transport == LS_TRANSPORT_SHM)
        return ls_fail(
            LS_UNAVAILABLE,
            "LOCKSTEP_TRANSPORT is shm, but there is no shared memory between all workers: %s; set it to auto "
            "or tcp",
            reason);
    ls_log_write(executor->log, executor->rank ? LS_LOG_DEBUG : LS_LOG_INFO,
                 "workers exchange gradients through %s%s%s%s", ls_group_describe(group),
                 *reason ? " (no shared memory: " : "", reason, *reason ? ")" : "");
    return LS_OK;
}

ls_status ls_group_connect(struct ls_group *group) {
    if (group->executor.size == 1 || group->shared) return LS_OK;
    return finish(group, connect_shared(group));
}

ls_status ls_group_share(struct ls_group *group, size_t size, void **memory) {
    char reason[256];
    void *made = NULL;
    ls_status status = size ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "shared memory of 0 bytes");
    if (!status && group->shared)
        status = ls_shared_allocate(group->shared, group, size, &made, reason, sizeof(reason));
    if (!status && group->shared && !made)
        ls_log_warning(group->executor.log, "%zu bytes are not shared: %s", size, reason);
    if (!status && !made && !(made = ls_alloc_aligned(size))) status = ls_fail_memory("memory to be shared", size);
    if (!status) *memory = made;
    return finish(group, status);
}

void ls_group_unshare(struct ls_group *group, void *memory) {
    if (!group->shared || !memory || !ls_shared_release(group->shared, memory)) ls_free(memory);
}

/* ---- all-reduce ---- */

static ls_status check_leaves(const struct ls_group *group, const struct ls_all_reduce *call, const int *first) {
    int size = group->executor.size;
    if (first[0])
        return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': leaves begin at %d, not 0", call->name, first[0]);
    for (int i = 0; i < size; i++)
        if (first[i + 1] <= first[i])
            return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': rank %d holds no leaf (%d to %d)", call->name, i,
                           first[i], first[i + 1]);
    if (first[size] > MAX_LEAVES)
        return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': %d leaves; the limit is %d", call->name, first[size],
                       MAX_LEAVES);
    return LS_OK;
}

static ls_status check_arrays(const struct ls_all_reduce *call, int local) {
    if (!call->inputs || !call->outputs) return missing_memory(call->name, "inputs or outputs");
    for (int i = 0; i < local && call->count; i++)
        if (!call->inputs[i] || !call->outputs[i])
            return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': %s[%d] is NULL", call->name,
                           call->inputs[i] ? "outputs" : "inputs", i);
    return LS_OK;
}

static ls_status check_all_reduce(const struct ls_group *group, const struct ls_all_reduce *call, const int *first) {
    ls_status status = check_name(call->name);
    if (!status) status = check_bytes(call->name, call->dtype, call->count);
    if (!status) status = ls_reduce_op_check(call->op);
    if (!status && call->communication != LS_AUTO && call->communication != LS_RING)
        status = ls_fail(LS_UNIMPLEMENTED, "all_reduce '%s': communication %s is not for memory of the host",
                         call->name, ls_communication_name(call->communication));
    if (!status) status = check_leaves(group, call, first);
    int rank = group->executor.rank;
    return status ? status : check_arrays(call, first[rank + 1] - first[rank]);
}

static ls_status reserve_scratch(struct ls_group *group, struct ls_reduction *reduction) {
    size_t size;
    if (!ls_direct_scratch(reduction, &size) || size > PTRDIFF_MAX) return ls_fail_memory("partial sums", SIZE_MAX);
    if (size > group->scratch_size) {
        ls_free(group->scratch);
        group->scratch_size = 0;
        group->scratch = ls_alloc_aligned(size);
        if (!group->scratch) return ls_fail_memory("partial sums", size);
        group->scratch_size = size;
    }
    reduction->scratch = group->scratch;
    return LS_OK;
}

static struct ls_reduction reduction_of(const struct ls_group *group, const struct ls_all_reduce *call,
                                        const int *first) {
    return (struct ls_reduction){.rank = group->executor.rank,
                                 .size = group->executor.size,
                                 .element = ls_dtype_size(call->dtype),
                                 .count = call->count,
                                 .divide = call->op == LS_MEAN ? first[group->executor.size] : 0,
                                 .first = first,
                                 .inputs = call->inputs,
                                 .outputs = call->outputs};
}

static ls_status schedule_all_reduce(struct ls_group *group, ls_communication communication,
                                     struct ls_reduction *reduction) {
    const int *first = reduction->first;
    if (!reduction->count) return LS_OK;
    if (communication == LS_RING && reduction->size > 1) {
        ls_schedule_reset(&group->schedule, first[reduction->rank + 1] - first[reduction->rank]);
        ls_ring_schedule(&group->schedule, reduction);
        return LS_OK;
    }
    ls_status status = reserve_scratch(group, reduction);
    if (status) return status;
    ls_schedule_reset(&group->schedule, first[reduction->size]);
    ls_direct_schedule(&group->schedule, reduction);
    return LS_OK;
}

static ls_status all_reduce(struct ls_group *group, const struct ls_all_reduce *call) {
    const int *first = call->leaves.first ? call->leaves.first : group->first;
    if (ls_abort_raised(group->executor.abort)) return ls_abort_status(group->executor.abort);
    ls_status status = check_all_reduce(group, call, first);
    if (status) return status;
    struct ls_call made = begin(group, LS_KIND_ALL_REDUCE, call->name, call->dtype, call->count);
    made.combine = ls_combine(call->op, call->dtype);
    made.frame.op = (int32_t)call->op;
    made.frame.communication = (int32_t)call->communication;
    made.frame.total = (uint64_t)first[group->executor.size];
    for (int i = 0; i <= group->executor.size; i++)
        made.frame.layout = ls_frame_digest(made.frame.layout, (uint64_t)first[i]);
    struct ls_reduction reduction = reduction_of(group, call, first);
    if (call->communication == LS_AUTO && ls_push_fits(group->shared, first))
        return ls_push(group->shared, &group->executor, &group->schedule, &made, &reduction);
    status = schedule_all_reduce(group, call->communication, &reduction);
    return status ? status : run(group, &made);
}

ls_status ls_group_all_reduce(struct ls_group *group, const struct ls_all_reduce *call) {
    unsigned denormals = ls_denormals_keep();
    ls_status status = finish(group, all_reduce(group, call));
    ls_denormals_restore(denormals);
    return status;
}

/* ---- broadcast: a chain from root on, every rank passing on what has come ---- */

static ls_status broadcast(struct ls_group *group, const struct ls_call *call, void *data, size_t bytes) {
    int rank = group->executor.rank, size = group->executor.size, root = call->frame.root, received = -1;
    if (rank != root)
        received = ls_schedule_add(
            &group->schedule,
            (struct ls_action){.kind = LS_ACTION_RECEIVE, .peer = (rank + size - 1) % size, .to = data, .size = bytes});
    if ((rank + 1) % size != root)
        ls_schedule_gate(
            &group->schedule,
            ls_schedule_add(
                &group->schedule,
                (struct ls_action){.kind = LS_ACTION_SEND, .peer = (rank + 1) % size, .from = data, .size = bytes}),
            received);
    return run(group, call);
}

static ls_status check_broadcast(const struct ls_group *group, const char *name, int root, ls_dtype dtype,
                                 size_t count) {
    if (ls_abort_raised(group->executor.abort)) return ls_abort_status(group->executor.abort);
    ls_status status = check_name(name);
    if (!status) status = check_bytes(name, dtype, count);
    if (!status && (root < 0 || root >= group->executor.size))
        status = ls_fail(LS_INVALID_ARGUMENT, "broadcast '%s': root %d is no rank of a group of %d", name, root,
                         group->executor.size);
    return status;
}

ls_status ls_group_broadcast(struct ls_group *group, const char *name, int root, ls_dtype dtype, void *data,
                             size_t count) {
    ls_status status = check_broadcast(group, name, root, dtype, count);
    if (!status && count && !data) status = missing_memory(name, "data");
    if (status) return finish(group, status);
    struct ls_call call = begin(group, LS_KIND_BROADCAST, name, dtype, count);
    call.frame.root = root;
    return finish(group, broadcast(group, &call, data, count * ls_dtype_size(dtype)));
}

/* ---- all-gather: each rank sends its part to all ---- */

static void schedule_all_gather(struct ls_group *group, const size_t *counts, size_t element, const void *input,
                                unsigned char *output) {
    struct ls_schedule *schedule = &group->schedule;
    int rank = group->executor.rank;
    size_t own = counts[rank] * element;
    for (int i = 0; i < group->executor.size; i++) {
        size_t bytes = counts[i] * element;
        if (i != rank) {
            (void)ls_schedule_add(schedule,
                                  (struct ls_action){.kind = LS_ACTION_SEND, .peer = i, .from = input, .size = own});
            (void)ls_schedule_add(
                schedule, (struct ls_action){.kind = LS_ACTION_RECEIVE, .peer = i, .to = output, .size = bytes});
        } else if (input != output) {
            (void)ls_schedule_add(
                schedule, (struct ls_action){.kind = LS_ACTION_COPY, .to = output, .from = input, .size = bytes});
        }
        if (bytes) output += bytes;
    }
}

static ls_status sum_counts(const struct ls_group *group, const char *name, ls_dtype dtype, const size_t *counts,
                            size_t *total) {
    size_t sum = 0;
    if (!counts) return missing_memory(name, "counts");
    for (int i = 0; i < group->executor.size; i++)
        if (__builtin_add_overflow(sum, counts[i], &sum))
            return ls_fail(LS_INVALID_ARGUMENT, "all_gather '%s': the sum of counts overflows at rank %d", name, i);
    ls_status status = check_bytes(name, dtype, sum);
    if (!status) *total = sum;
    return status;
}

static ls_status check_all_gather(const struct ls_group *group, const char *name, ls_dtype dtype, const size_t *counts,
                                  size_t *total) {
    if (ls_abort_raised(group->executor.abort)) return ls_abort_status(group->executor.abort);
    ls_status status = check_name(name);
    return status ? status : sum_counts(group, name, dtype, counts, total);
}

ls_status ls_group_all_gather(struct ls_group *group, const char *name, ls_dtype dtype, const void *input,
                              const size_t *counts, void *output) {
    size_t total = 0;
    int rank = group->executor.rank;
    ls_status status = check_all_gather(group, name, dtype, counts, &total);
    if (!status && ((counts[rank] && !input) || (total && !output))) status = missing_memory(name, "input or output");
    if (status) return finish(group, status);
    struct ls_call call = begin(group, LS_KIND_ALL_GATHER, name, dtype, counts[rank]);
    call.counts = counts;
    call.frame.total = total;
    for (int i = 0; i < group->executor.size; i++) call.frame.layout = ls_frame_digest(call.frame.layout, counts[i]);
    schedule_all_gather(group, counts, ls_dtype_size(dtype), input, output);
    return finish(group, run(group, &call));
}

/* ---- barrier: the frames alone ---- */

ls_status ls_group_barrier(struct ls_group *group, const char *name) {
    if (ls_abort_raised(group->executor.abort)) return ls_abort_status(group->executor.abort);
    ls_status status = check_name(name);
    if (status) return finish(group, status);
    struct ls_call call = begin(group, LS_KIND_BARRIER, name, LS_FLOAT32, 0);
    return finish(group, run(group, &call));
}
