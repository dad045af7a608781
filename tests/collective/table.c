/* Calls of a table, one after the other, on every rank of one world. */
#include "collective/table.h"

#include <stdlib.h>
#include <string.h>

#include "collective/collectives.h"
#include "bench/oracle.h"
#include "harness.h"

struct one_case {
    ls_communication communication;
    ls_reduce_op op;
    ls_dtype dtype;
    size_t count;
    bool in_place;
};

static void prepare(struct table *table, int size, const struct one_case *one) {
    int leaves = table->first[size];
    for (int i = 0; i < leaves; i++) {
        uint64_t stream = (uint64_t)i * 128 + (uint64_t)one->dtype * 8 + (uint64_t)one->op;
        oracle_fill(one->dtype, table->leaves[i], one->count, stream);
    }
    struct oracle oracle = {one->communication, one->op, one->dtype, one->count, size, table->first};
    if (!table->in_memory) oracle.compression = table->compression;
    oracle.hosts = table->hosts;
    oracle_all_reduce(&oracle, table->leaves, table->expected);
}

static void verify(const struct rank *rank, const struct one_case *one, void *const *outputs, int local) {
    const struct table *table = rank->context;
    for (int i = 0; i < local; i++) {
        size_t at = oracle_compare(one->dtype, table->expected, outputs[i], one->count);
        if (at != one->count) /* ck_assert writes to a file, each time */
            ck_abort_msg("rank %d of %d, output %d: %s differs at %zu of %zu (op %d, communication %d, in place %d)",
                         rank->rank, rank->size, i, ls_dtype_name(one->dtype), at, one->count, one->op,
                         one->communication, one->in_place);
    }
}

/* Not a multiple of a cache line. */
static size_t pool_stride(const struct table *table) {
    return table->largest * 8 + 24;
}

/* Each rank works on copies of its own, with a guard behind each output. */
static ls_status run_case(struct rank *rank, const struct one_case *one) {
    static const unsigned char guard[16] = {0xA5, 0x5A, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    struct table *table = rank->context;
    if (!rank->rank) table->cases++;
    int low = table->first[rank->rank], local = table->first[rank->rank + 1] - low;
    size_t bytes = one->count * ls_dtype_size(one->dtype);
    void *inputs[MAX_LEAVES], *outputs[MAX_LEAVES];
    unsigned char *pool = one->in_place ? table->pools[rank->rank] : NULL;
    for (int i = 0; i < local; i++) {
        outputs[i] = pool ? pool + (size_t)i * pool_stride(table) : malloc(bytes + sizeof(guard));
        inputs[i] = one->in_place ? outputs[i] : malloc(bytes + 1);
        if (!inputs[i] || !outputs[i]) ck_abort_msg("no memory");
        if (!one->in_place) memset(outputs[i], 0xEE, bytes);
        memcpy((char *)outputs[i] + bytes, guard, sizeof(guard));
        memcpy(inputs[i], table->leaves[low + i], bytes);
    }
    struct ls_all_reduce call = {.name = "table",
                                 .communication = one->communication,
                                 .op = one->op,
                                 .dtype = one->dtype,
                                 .count = one->count,
                                 .leaves = {table->first},
                                 .compression = table->compression,
                                 .inputs = (const void *const *)inputs,
                                 .outputs = outputs};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    if (!status) verify(rank, one, outputs, local);
    for (int i = 0; i < local; i++) {
        if (memcmp((char *)outputs[i] + bytes, guard, sizeof(guard)) != 0) ck_abort_msg("written behind output %d", i);
        if (!one->in_place && memcmp(inputs[i], table->leaves[low + i], bytes) != 0)
            ck_abort_msg("input %d is changed", i);
        if (!one->in_place) free(inputs[i]);
        if (!pool) free(outputs[i]);
    }
    return status;
}

static ls_status one_row(struct rank *rank, struct one_case *one) {
    struct table *table = rank->context;
    for (int count = 0; count < table->count_count; count++) {
        int number = (int)one->communication + (int)one->dtype + (int)one->op + count + rank->size + table->turn;
        if (table->deal && !is_full() && number % table->deal) continue;
        one->count = table->counts[count];
        (void)pthread_barrier_wait(rank->barrier);
        if (!rank->rank) prepare(table, rank->size, one);
        (void)pthread_barrier_wait(rank->barrier);
        for (int in_place = 0; in_place < 2; in_place++) {
            one->in_place = in_place;
            ls_status status = run_case(rank, one);
            if (status) return status;
        }
    }
    return LS_OK;
}

/* Effects of threads on each other do not depend on types. */
static enum breadth breadth_of(const struct table *table) {
    return SANITIZED_THREADS && table->breadth == ALL_TYPES ? TWO_TYPES : table->breadth;
}

static bool wanted(const struct table *table, ls_dtype dtype, ls_reduce_op op) {
    enum breadth breadth = breadth_of(table);
    if (dtype == LS_BOOL && op == LS_MEAN) return false;
    if (table->compression) return dtype == LS_FLOAT32 && (op == LS_SUM || op == LS_MEAN);
    if (breadth == ALL_TYPES) return true;
    if (dtype != LS_FLOAT32 && (dtype != LS_FLOAT16 || breadth == MEANS)) return false;
    return op == LS_MEAN || (op == LS_SUM && breadth == TWO_TYPES);
}

static ls_status all_ops(struct rank *rank) {
    const struct table *table = rank->context;
    for (int communication = LS_AUTO; communication <= LS_RING; communication++)
        for (int dtype = LS_FLOAT32; dtype <= LS_BOOL; dtype++)
            for (int op = LS_SUM; op <= LS_PRODUCT; op++) {
                if (table->order && (communication == LS_RING) != (table->order == CHAIN)) continue;
                if (!wanted(table, (ls_dtype)dtype, (ls_reduce_op)op)) continue;
                struct one_case one = {(ls_communication)communication, (ls_reduce_op)op, (ls_dtype)dtype, 0, false};
                ls_status status = one_row(rank, &one);
                if (status) return status;
            }
    return LS_OK;
}

/* With shared memory in a second go over arrays in it. */
static ls_status all_cases(struct rank *rank) {
    struct table *table = rank->context;
    int local = table->first[rank->rank + 1] - table->first[rank->rank];
    void *pool = NULL;
    ls_status status = all_ops(rank);
    if (status || strncmp(ls_group_describe(rank->group), "shared memory", 13) != 0) return status;
    status = ls_group_share(rank->group, (size_t)local * pool_stride(table), &pool);
    table->pools[rank->rank] = pool;
    if (!status) status = all_ops(rank);
    table->pools[rank->rank] = NULL;
    ls_group_unshare(rank->group, pool);
    return status;
}

void table_run(const struct world_options *options, struct table *table) {
    size_t largest = 8;
    table->cases = 0;
    table->turn = (int)options->wire + (int)options->algorithm;
    for (int i = 0; i < table->count_count; i++)
        if (table->counts[i] > largest) largest = table->counts[i];
    for (int i = 0; i < MAX_LEAVES; i++) table->leaves[i] = malloc(largest * 8);
    table->expected = malloc(largest * 8);
    table->largest = largest;
    struct world world;
    world_run(options, all_cases, table, &world);
    world_expect_ok(&world, options->size);
    for (int i = 0; i < MAX_LEAVES; i++) free(table->leaves[i]);
    free(table->expected);
}
