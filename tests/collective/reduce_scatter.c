/* Reduce-scatter: both orders × types × ops × workers × parts of any length, in place and not, in memory that the ranks
 * share and not, over every kind of link; bit for bit against the oracle. */
#include <stdlib.h>
#include <string.h>

#include "bench/oracle.h"
#include "collective/collectives.h"
#include "collective/world.h"
#include "harness.h"

enum { MOST_WORKERS = 9, SHAPES = 8, LARGE = 6, MOST_ELEMENTS = 330000, GUARD = 16 };

static const size_t shapes[SHAPES][MOST_WORKERS] = {
    {0},
    {1, 1, 1, 1, 1, 1, 1, 1, 1},
    {3, 0, 5, 1, 0, 2, 9, 4, 0},
    {0, 7},
    {0, 0, 0, 11, 0, 0, 0, 0, 2},
    {1001, 3, 0, 777, 1, 2, 5000, 2, 1000},
    /* more than a slot holds, more than a stage */
    {20011, 3, 0, 30000, 1, 2, 50, 2, 10},
    {1, 250001, 77777, 0, 0, 0, 0, 0, 5},
};

struct scatter_case {
    ls_communication communication;
    ls_reduce_op op;
    ls_dtype dtype;
    int shape;
    bool in_place, in_region;
};
struct context {
    unsigned char *inputs[MOST_WORKERS], *expected;
    size_t total, starts[MOST_WORKERS]; /* elements */
};

static void prepare(struct context *context, int size, const struct scatter_case *one) {
    int first[MOST_WORKERS + 1];
    context->total = 0;
    for (int i = 0; i < size; i++) {
        context->starts[i] = context->total;
        context->total += shapes[one->shape][i];
    }
    for (int i = 0; i <= size; i++) first[i] = i;
    for (int i = 0; i < size; i++)
        oracle_fill(one->dtype, context->inputs[i], context->total, (uint64_t)i * 8 + (uint64_t)one->dtype);
    struct oracle oracle = {one->communication, one->op, one->dtype, context->total, size, first, shapes[one->shape]};
    oracle_all_reduce(&oracle, context->inputs, context->expected);
}

static ls_status run_case(struct rank *rank, const struct scatter_case *one) {
    const struct context *context = rank->context;
    size_t element = ls_dtype_size(one->dtype), own = shapes[one->shape][rank->rank];
    size_t start = context->starts[rank->rank] * element, bytes = context->total * element;
    unsigned char *apart = malloc(own * element + GUARD), *input = one->in_region ? NULL : malloc(bytes + GUARD);
    if (one->in_region) assert_ok(ls_group_share(rank->group, bytes + GUARD, (void **)&input));
    ck_assert(input && apart);
    unsigned char *output = one->in_place ? input + start : apart;
    memcpy(input, context->inputs[rank->rank], bytes);
    if (!one->in_place) memset(output, 0xEE, own * element);
    memset(input + bytes, 0xA5, GUARD);
    memset(apart + own * element, 0xA5, GUARD);
    struct ls_reduce_scatter call = {.name = "shards",
                                     .communication = one->communication,
                                     .op = one->op,
                                     .dtype = one->dtype,
                                     .counts = shapes[one->shape],
                                     .input = input,
                                     .output = output};
    ls_status status = ls_group_reduce_scatter(rank->group, &call);
    size_t at = oracle_compare(one->dtype, context->expected + start, output, own);
    ck_assert_msg(status || at == own, "rank %d of %d: %s differs at %zu of %zu (op %d, communication %d, in place %d)",
                  rank->rank, rank->size, ls_dtype_name(one->dtype), at, own, one->op, one->communication,
                  one->in_place);
    if (one->in_place) memcpy(output, context->inputs[rank->rank] + start, own * element);
    ck_assert_mem_eq(input, context->inputs[rank->rank], bytes); /* nothing else of it is touched */
    for (int i = 0; i < GUARD; i++)
        if (input[bytes + (size_t)i] != 0xA5 || apart[own * element + (size_t)i] != 0xA5)
            ck_abort_msg("written behind");
    if (one->in_region)
        ls_group_unshare(rank->group, input);
    else
        free(input);
    free(apart);
    return status;
}

static ls_status run_ways(struct rank *rank, struct scatter_case *one) {
    ls_status status = LS_OK;
    (void)pthread_barrier_wait(rank->barrier);
    if (!rank->rank) prepare(rank->context, rank->size, one);
    (void)pthread_barrier_wait(rank->barrier);
    int ways = one->shape < LARGE ? 2 : 4;
    for (int way = 0; way < ways && !status; way++) {
        one->in_place = way & 1;
        one->in_region = way & 2;
        status = run_case(rank, one);
    }
    return status;
}

/* The oracle is slow. Cases are dealt out over the sizes: each two of type, op, shape and size meet on every wire. */
static bool wanted(const struct scatter_case *one, int size) {
    if (one->dtype == LS_BOOL && one->op == LS_MEAN) return false;
    if (SANITIZED_THREADS && one->dtype != LS_FLOAT32 && one->dtype != LS_BFLOAT16) return false;
    if (((int)one->communication + (int)one->dtype + (int)one->op + one->shape + size) % (SANITIZED ? 3 : 2))
        return false;
    if (one->shape < LARGE - 1) return true;
    if (one->shape >= LARGE && size > 4) return false;
    return one->op <= LS_MEAN && (one->shape < LARGE || one->dtype == LS_FLOAT64 || one->dtype == LS_BFLOAT16);
}

static ls_status all_cases(struct rank *rank) {
    struct scatter_case one;
    for (int shape = 0; shape < SHAPES; shape++)
        for (int communication = LS_AUTO; communication <= LS_RING; communication++)
            for (int dtype = LS_FLOAT32; dtype <= LS_BOOL; dtype++)
                for (int op = LS_SUM; op <= LS_PRODUCT; op++) {
                    one = (struct scatter_case){
                        (ls_communication)communication, (ls_reduce_op)op, (ls_dtype)dtype, shape, false, false};
                    if (!wanted(&one, rank->size)) continue;
                    ls_status status = run_ways(rank, &one);
                    if (status) return status;
                }
    return LS_OK;
}

TEST_EACH(parts_of_any_length, 5) {
    static const struct {
        enum wire wire;
        int least, most;
        size_t segment;
    } worlds[] = {{WIRE_LOCAL, 1, SANITIZED ? 4 : 9, 0},
                  {WIRE_TCP, 3, SANITIZED ? 3 : 5, 1024},
                  {WIRE_ODD, 3, 4, 1000},
                  {WIRE_RING, 3, 4, 0},
                  {WIRE_SHARED, 2, 4, 0}};
    struct context context;
    for (int i = 0; i < MOST_WORKERS; i++) context.inputs[i] = malloc(MOST_ELEMENTS * 8);
    context.expected = malloc(MOST_ELEMENTS * 8);
    for (int size = worlds[_i].least; size <= worlds[_i].most; size++) {
        struct world_options options = {.size = size, .wire = worlds[_i].wire, .segment = worlds[_i].segment};
        struct world world;
        world_run(&options, all_cases, &context, &world);
        world_expect_ok(&world, size);
    }
    for (int i = 0; i < MOST_WORKERS; i++) free(context.inputs[i]);
    free(context.expected);
}

/* ---- refusals ---- */

static void expect_refused(const struct ls_reduce_scatter *call, ls_status status, const char *message) {
    struct ls_abort *abort;
    struct ls_group *group;
    assert_ok(ls_abort_new(&abort));
    assert_ok(ls_group_new(&(struct ls_group_config){.size = 1, .abort = abort}, &group));
    ck_assert_int_eq(ls_group_reduce_scatter(group, call), status);
    ck_assert_msg(strstr(ls_error(), message) != NULL, "%s", ls_error());
    ls_group_free(group);
    ls_abort_free(abort);
}
#define REFUSED(field, value, status, message)                                                                         \
    do {                                                                                                               \
        struct ls_reduce_scatter bad = good;                                                                           \
        bad.field = value;                                                                                             \
        expect_refused(&bad, status, message);                                                                         \
    } while (0)

TEST(bad_arguments_are_named) {
    float data[8] = {0};
    const size_t counts[1] = {4}, many[1] = {SIZE_MAX};
    struct ls_reduce_scatter good = {.name = "x", .counts = counts, .input = data, .output = data};
    REFUSED(name, NULL, LS_INVALID_ARGUMENT, "name");
    REFUSED(counts, NULL, LS_INVALID_ARGUMENT, "counts");
    REFUSED(counts, many, LS_INVALID_ARGUMENT, "count");
    REFUSED(input, NULL, LS_INVALID_ARGUMENT, "input");
    REFUSED(output, NULL, LS_INVALID_ARGUMENT, "output");
    REFUSED(output, data + 1, LS_INVALID_ARGUMENT, "overlaps");
    REFUSED(op, (ls_reduce_op)9, LS_INVALID_ARGUMENT, "op");
    REFUSED(dtype, (ls_dtype)9, LS_INVALID_ARGUMENT, "dtype");
    REFUSED(communication, LS_NCCL, LS_UNIMPLEMENTED, "NCCL");
}

TESTS("collective/reduce_scatter", .seconds = 120)
