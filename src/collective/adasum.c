/* Adasum by recursive doubling. In step s a rank exchanges its vector with rank ^ 2^s, and both combine the two with
 * the lower rank's first: so all ranks get the same bits. log2(n) messages of the whole vector. Dot products and norms
 * are taken over the whole array, in float64, in lanes that are added in one order. */
#include "collective/collectives.h"

#include <string.h>

#include "base/denormal.h"
#include "base/shape.h"
#include "base/half.h"
#include "base/status.h"
#include "collective/call.h"
#include "collective/group_private.h"
#include "collective/schedule/schedules.h"
#include "collective/schedule/reduce.h"

enum { LANES = 8 };

/* Of vectors a and b. */
struct products {
    double ab, aa, bb;
};

static double add_lanes(const double lanes[LANES]) {
    double sum = 0;
    for (int i = 0; i < LANES; i++) sum += lanes[i];
    return sum;
}

#define ADASUM_TYPE(suffix, type, load, store)                                                                         \
    static struct products multiply_##suffix(const void *a, const void *b, size_t count) {                             \
        const type *x = a, *y = b;                                                                                     \
        double ab[LANES] = {0}, aa[LANES] = {0}, bb[LANES] = {0};                                                      \
        for (size_t i = 0; i < count; i++) {                                                                           \
            double p = load(x[i]), q = load(y[i]);                                                                     \
            ab[i % LANES] += p * q;                                                                                    \
            aa[i % LANES] += p * p;                                                                                    \
            bb[i % LANES] += q * q;                                                                                    \
        }                                                                                                              \
        return (struct products){add_lanes(ab), add_lanes(aa), add_lanes(bb)};                                         \
    }                                                                                                                  \
    static void add_##suffix(void *out, double p, const void *a, double q, const void *b, size_t count) {              \
        type *o = out;                                                                                                 \
        const type *x = a, *y = b;                                                                                     \
        for (size_t i = 0; i < count; i++) o[i] = store(p * load(x[i]) + q * load(y[i]));                              \
    }

#define FROM_FLOAT32(value)  (double)(value)
#define TO_FLOAT32(value)    (float)(value)
#define SAME(value)          (value)
#define TO_FLOAT16(value)    ls_half_from_float((float)(value))
#define TO_BFLOAT16(value)   ls_half_bfloat16_from_float((float)(value))
#define FROM_FLOAT16(value)  (double)ls_half_to_float(value)
#define FROM_BFLOAT16(value) (double)ls_half_bfloat16_to_float(value)
ADASUM_TYPE(float32, float, FROM_FLOAT32, TO_FLOAT32)
ADASUM_TYPE(float64, double, SAME, SAME)
ADASUM_TYPE(float16, uint16_t, FROM_FLOAT16, TO_FLOAT16)
ADASUM_TYPE(bfloat16, uint16_t, FROM_BFLOAT16, TO_BFLOAT16)

static const struct {
    struct products (*multiply)(const void *a, const void *b, size_t count);
    void (*add)(void *out, double p, const void *a, double q, const void *b, size_t count);
} types[] = {[LS_FLOAT32] = {multiply_float32, add_float32},
             [LS_FLOAT64] = {multiply_float64, add_float64},
             [LS_FLOAT16] = {multiply_float16, add_float16},
             [LS_BFLOAT16] = {multiply_bfloat16, add_bfloat16}};

/* A vector of zeros has nothing in common with the other. */
static double kept_share(double ab, double norm) {
    return norm > 0 ? 1 - ab / norm / 2 : 1;
}

static void combine(ls_dtype dtype, void *out, const void *a, const void *b, size_t count) {
    struct products of = types[dtype].multiply(a, b, count);
    types[dtype].add(out, kept_share(of.ab, of.aa), a, kept_share(of.ab, of.bb), b, count);
}

ls_status ls_adasum_check(const char *name, ls_dtype dtype) {
    ls_status status = ls_dtype_check(dtype);
    if (!status && ((size_t)dtype >= sizeof(types) / sizeof(types[0]) || !types[dtype].add))
        status = ls_fail(LS_INVALID_ARGUMENT, "adasum is for floats, not for %s", ls_dtype_name(dtype));
    return status ? ls_fail_context(status, "all_reduce '%s'", name) : LS_OK;
}

static ls_status check_ranks(const struct ls_group *group, const struct ls_all_reduce *call) {
    int size = group->executor.size;
    if (call->leaves.first || call->compression)
        return ls_fail(LS_INVALID_ARGUMENT, "all_reduce '%s': adasum takes one array a rank, without compression",
                       call->name);
    if (size & (size - 1))
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "all_reduce '%s': adasum is for a power of two of ranks, not for %d; take mean, or a process set",
            call->name, size);
    if (call->count && (!call->inputs[0] || !call->outputs[0]))
        return ls_call_missing_memory(call->name, call->inputs[0] ? "output" : "input");
    return LS_OK;
}

/* In the first step few ranks compare their calls all with all, in the others with whom they exchange bytes. */
static ls_status combine_pair(struct ls_group *group, const struct ls_all_reduce *what, int distance) {
    int rank = group->executor.rank, peer = rank ^ distance, size = group->executor.size;
    size_t bytes = what->count * ls_dtype_size(what->dtype);
    unsigned char *own = what->outputs[0];
    struct ls_call call = ls_call_begin(group, LS_KIND_ALL_REDUCE, what->name, what->dtype, what->count);
    call.frame.op = LS_ADASUM;
    call.frame.communication = (int32_t)what->communication;
    call.frame.total = (uint64_t)size;
    call.frame.layout = ls_frame_digest(what->list, (uint64_t)distance);
    call.frame.prescale = ls_scale_factor(what->prescale);
    call.frame.postscale = ls_scale_factor(what->postscale);
    unsigned char *other = bytes ? ls_schedule_take(&group->schedule, bytes) : NULL;
    (void)ls_schedule_send(&group->schedule, peer, own, bytes);
    (void)ls_schedule_receive(&group->schedule, peer, other, bytes);
    if (distance > 1 || size > LS_MEET_ALL) {
        memset(group->roles, LS_ROLE_NONE, (size_t)size);
        group->roles[peer] = LS_ROLE_PARTNER;
        call.roles = group->roles;
    }
    ls_status status = ls_call_run(group, &call);
    if (!status) combine(what->dtype, own, peer < rank ? other : own, peer < rank ? own : other, what->count);
    return status;
}

static void scale(const struct ls_all_reduce *call, const void *input, double factor) {
    size_t bytes = call->count * ls_dtype_size(call->dtype);
    if (factor != 1)
        ls_scale(call->dtype, call->outputs[0], input, call->count, factor);
    else if (bytes && input != call->outputs[0])
        memcpy(call->outputs[0], input, bytes);
}

ls_status ls_group_adasum(struct ls_group *group, const struct ls_all_reduce *call) {
    ls_status status = check_ranks(group, call);
    if (status) return status;
    if (ls_abort_raised(group->executor.abort)) return ls_call_finish(group, ls_abort_status(group->executor.abort));
    unsigned denormals = ls_denormals_keep();
    scale(call, call->inputs[0], call->is_neutral ? 1 : ls_scale_factor(call->prescale));
    for (int distance = 1; distance < group->executor.size && !status; distance *= 2)
        status = combine_pair(group, call, distance);
    if (!status) scale(call, call->outputs[0], ls_scale_factor(call->postscale));
    ls_denormals_restore(denormals);
    return ls_call_finish(group, status);
}
