/* All-reduce: arguments, fingerprint, and the algorithm that runs it. The counterpart of TensorFlow's
 * CollectiveReduceV2 behind CollectiveAllReduceExtended. */
#include "collective/collectives.h"

#include <stdint.h>

#include "base/denormal.h"
#include "base/options.h"
#include "base/status.h"
#include "collective/algorithm.h"
#include "collective/call.h"
#include "collective/schedule/reduce.h"
#include "collective/tuner.h"
#include "collective/group_private.h"

enum { MAX_LEAVES = 1 << 20 };

static ls_status check_leaves(const struct ls_group *group, const struct ls_all_reduce *call, const int *first) {
    int size = group->executor.size;
    if (first[0])
        return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': leaves begin at %d, not 0", call->name, first[0]);
    for (int i = 0; i < size - group->config.servers; i++)
        if (first[i + 1] <= first[i])
            return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': rank %d holds no leaf (%d to %d)", call->name, i,
                           first[i], first[i + 1]);
    if (first[size] > MAX_LEAVES)
        return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': %d leaves; the limit is %d", call->name, first[size],
                       MAX_LEAVES);
    return LS_OK;
}

static ls_status check_arrays(const struct ls_all_reduce *call, int local) {
    if (!call->inputs || !call->outputs) return ls_call_missing_memory(call->name, "inputs or outputs");
    for (int i = 0; i < local && call->count; i++)
        if (!call->inputs[i] || !call->outputs[i])
            return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': %s[%d] is NULL", call->name,
                           call->inputs[i] ? "outputs" : "inputs", i);
    return LS_OK;
}

static ls_status check_rounding(const struct ls_all_reduce *call) {
    ls_status status = ls_option_names_check_compression(call->compression);
    if (!status && call->compression && (call->dtype != LS_FLOAT32 || (call->op != LS_SUM && call->op != LS_MEAN)))
        status = ls_fail(LS_INVALID_ARGUMENT, "compression %s is for sum and mean of float32, not for %s of %s",
                         ls_option_names_compression(call->compression), ls_option_names_reduce_op(call->op),
                         ls_dtype_name(call->dtype));
    if (!status) status = ls_scale_check("prescale", call->prescale, call->dtype);
    if (!status) status = ls_scale_check("postscale", call->postscale, call->dtype);
    return status ? ls_fail_context(status, "all_reduce '%s'", call->name) : LS_OK;
}

ls_status ls_group_all_reduce_check(const struct ls_all_reduce *call) {
    ls_status status = ls_call_check_name(call->name);
    if (!status && call->op == LS_ADASUM)
        status = ls_adasum_check(call->name, call->dtype);
    else if (!status)
        status = ls_call_check_op(call->name, call->op, call->dtype);
    if (!status) status = check_rounding(call);
    return status ? status : ls_call_check_communication(call->name, call->communication);
}

static ls_status check_reduction(const struct ls_group *group, const struct ls_all_reduce *call, const int *first) {
    ls_status status = ls_group_all_reduce_check(call);
    if (!status) status = ls_call_check_bytes(call->name, call->dtype, call->count);
    if (!status) status = check_leaves(group, call, first);
    int rank = group->executor.rank;
    return status ? status : check_arrays(call, first[rank + 1] - first[rank]);
}

static int divisor_of(const struct ls_all_reduce *call, int leaves) {
    if (call->op != LS_MEAN) return 0;
    return call->divisor ? call->divisor : leaves;
}

static struct ls_reduction reduction_of(const struct ls_group *group, const struct ls_all_reduce *call,
                                        const int *first) {
    return (struct ls_reduction){.rank = group->executor.rank,
                                 .size = group->executor.size,
                                 .element = ls_dtype_size(call->dtype),
                                 .count = call->count,
                                 .divide = divisor_of(call, first[group->executor.size]),
                                 .compression = call->compression,
                                 .first = first,
                                 .inputs = call->inputs,
                                 .outputs = call->outputs,
                                 .hosts = &group->flat};
}

/* In the memory of one host compression would cost two passes and save no wire, so nothing is rounded there. The answer
 * depends on facts that all ranks share. */
static bool moves_over_links(const struct ls_group *group, ls_communication communication, const int *first) {
    if (communication != LS_AUTO || (group->config.algorithm && group->config.algorithm != LS_ALGORITHM_SHARED))
        return true;
    return !ls_algorithm_offers(LS_ALGORITHM_SHARED, group, &(struct ls_reduction){.first = first});
}

bool ls_group_all_reduce_compresses(const struct ls_group *group, ls_communication communication) {
    return group->executor.size > 1 && moves_over_links(group, communication, group->first);
}

/* The call's own algorithm; AUTO's. */
static ls_status choose_algorithm(const struct ls_group *group, const struct ls_all_reduce *call,
                                  const struct ls_reduction *reduction, enum ls_algorithm *algorithm) {
    *algorithm = LS_ALGORITHM_EXCHANGE;
    if (reduction->size == 1) return LS_OK;
    *algorithm = call->communication == LS_RING ? LS_ALGORITHM_RING : group->config.algorithm;
    if (*algorithm && ls_algorithm_offers(*algorithm, group, reduction)) return LS_OK;
    if (!*algorithm || *algorithm == LS_ALGORITHM_ASSIST) { /* no server is there now, or the call is small */
        *algorithm = ls_tuner_find(group->choice, group, reduction);
        return LS_OK;
    }
    struct ls_reduction on_hosts = *reduction;
    on_hosts.hosts = &group->hosts;
    return ls_algorithm_refuse(*algorithm, call->name, &on_hosts);
}

static const int *leaves_of(const struct ls_group *group, const struct ls_all_reduce *call) {
    return call->leaves.first ? call->leaves.first : group->first;
}

/* The frame carries a digest of first, for two ranks that disagree on the leaves would fold different trees. It carries
 * the compression that was asked for, not the one that is used: a rank with another option is told so on one host too.
 */
static ls_status all_reduce(struct ls_group *group, const struct ls_all_reduce *call) {
    const int *first = leaves_of(group, call);
    if (ls_abort_raised(group->executor.abort)) return ls_abort_status(group->executor.abort);
    struct ls_call made = ls_call_begin(group, LS_KIND_ALL_REDUCE, call->name, call->dtype, call->count);
    made.combine = ls_reduce_combine(call->op, call->dtype);
    made.frame.op = (int32_t)call->op;
    made.frame.communication = (int32_t)call->communication;
    made.frame.total = (uint64_t)first[group->executor.size];
    for (int i = 0; i <= group->executor.size; i++)
        made.frame.layout = ls_frame_digest(made.frame.layout, (uint64_t)first[i]);
    if (call->list) made.frame.layout = ls_frame_digest(made.frame.layout, call->list);
    if (call->divisor) made.frame.layout = ls_frame_digest(made.frame.layout, (uint64_t)call->divisor);
    made.frame.compression = (int32_t)call->compression;
    made.frame.prescale = ls_scale_factor(call->prescale);
    made.frame.postscale = ls_scale_factor(call->postscale);
    struct ls_reduction reduction = reduction_of(group, call, first);
    if (call->compression && (group->executor.size == 1 || !moves_over_links(group, call->communication, first)))
        reduction.compression = LS_COMPRESS_NONE;
    made.conversion = ls_convert_find(reduction.compression);
    enum ls_algorithm algorithm;
    ls_status status = choose_algorithm(group, call, &reduction, &algorithm);
    if (status) return status;
    made.frame.algorithm = (int32_t)algorithm;
    group->executor.flight.current->algorithm = (int32_t)algorithm;
    return ls_algorithm_info(algorithm)->run(group, &made, &reduction);
}

/* The inputs are scaled into the outputs, where they are then reduced in place. Each element is
 * rounded once before and once after, so the bits depend on nothing else. */
static ls_status reduce_scaled(struct ls_group *group, const struct ls_all_reduce *call) {
    double before = call->is_neutral ? 1 : ls_scale_factor(call->prescale), after = ls_scale_factor(call->postscale);
    struct ls_all_reduce scaled = *call;
    if (before != 1) {
        ls_scale(call->dtype, call->outputs[0], call->inputs[0], call->count, before);
        scaled.inputs = (const void *const *)call->outputs;
    }
    ls_status status = all_reduce(group, &scaled);
    if (!status && after != 1) ls_scale(call->dtype, call->outputs[0], call->outputs[0], call->count, after);
    return status;
}

/* Denormals are kept while arrays are added, whatever mode the caller computes in; the caller's mode comes back after
 * it. The sums are then those of IEEE 754 on every thread that may fold them. */
ls_status ls_group_all_reduce(struct ls_group *group, const struct ls_all_reduce *call) {
    ls_status status = check_reduction(group, call, leaves_of(group, call));
    if (status) return status;
    if (call->op == LS_ADASUM) return ls_group_adasum(group, call);
    unsigned denormals = ls_denormals_keep();
    status = ls_call_finish(group, reduce_scaled(group, call));
    ls_denormals_restore(denormals);
    return status;
}
