/* The table of all-reduce: communication × workers × layouts of leaves × types × ops × counts, in place and not, over
 * local links, TCP and links that move odd numbers of bytes; bit for bit against the oracle. */
#include <stdlib.h>
#include <string.h>

#include "collective/oracle.h"
#include "collective/world.h"
#include "harness.h"

enum { MAX_LEAVES = 32 };

enum breadth {
    MEANS,     /* MEAN of float32: for counts that take the oracle long */
    TWO_TYPES, /* SUM and MEAN of float32 and float16 */
    ALL_TYPES  /* with every op */
};

struct table {
    const int *first;
    const size_t *counts;
    int count_count;
    enum breadth breadth;
    /* the case that runs */
    unsigned char *leaves[MAX_LEAVES], *expected;
    size_t largest;                  /* count */
    unsigned char *pools[MAX_RANKS]; /* memory of ls_group_share, for the arrays of calls in place; NULL: none */
};

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
        uint64_t stream = (uint64_t)i * 64 + (uint64_t)one->dtype * 4 + (uint64_t)one->op;
        oracle_fill(one->dtype, table->leaves[i], one->count, stream);
    }
    struct oracle oracle = {one->communication, one->op, one->dtype, one->count, size, table->first};
    oracle_all_reduce(&oracle, table->leaves, table->expected);
}

static void verify(const struct rank *rank, const struct one_case *one, void *const *outputs, int local) {
    const struct table *table = rank->context;
    for (int i = 0; i < local; i++) {
        size_t at = oracle_compare(one->dtype, table->expected, outputs[i], one->count);
        ck_assert_msg(at == one->count,
                      "rank %d of %d, output %d: %s differs at %zu of %zu (op %d, communication %d, in place %d)",
                      rank->rank, rank->size, i, ls_dtype_name(one->dtype), at, one->count, one->op, one->communication,
                      one->in_place);
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
    int low = table->first[rank->rank], local = table->first[rank->rank + 1] - low;
    size_t bytes = one->count * ls_dtype_size(one->dtype);
    void *inputs[MAX_LEAVES], *outputs[MAX_LEAVES];
    unsigned char *pool = one->in_place ? table->pools[rank->rank] : NULL;
    for (int i = 0; i < local; i++) {
        outputs[i] = pool ? pool + (size_t)i * pool_stride(table) : malloc(bytes + sizeof(guard));
        inputs[i] = one->in_place ? outputs[i] : malloc(bytes + 1);
        ck_assert(inputs[i] && outputs[i]);
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
                                 .inputs = (const void *const *)inputs,
                                 .outputs = outputs};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    if (!status) verify(rank, one, outputs, local);
    for (int i = 0; i < local; i++) {
        ck_assert_mem_eq((char *)outputs[i] + bytes, guard, sizeof(guard));
        if (!one->in_place) ck_assert_mem_eq(inputs[i], table->leaves[low + i], bytes);
        if (!one->in_place) free(inputs[i]);
        if (!pool) free(outputs[i]);
    }
    return status;
}

static ls_status one_row(struct rank *rank, struct one_case *one) {
    struct table *table = rank->context;
    for (int count = 0; count < table->count_count; count++) {
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

static bool wanted(const struct table *table, ls_dtype dtype, ls_reduce_op op) {
    if (table->breadth == ALL_TYPES) return true;
    if (dtype != LS_FLOAT32 && (dtype != LS_FLOAT16 || table->breadth == MEANS)) return false;
    return op == LS_MEAN || (op == LS_SUM && table->breadth == TWO_TYPES);
}

static ls_status all_ops(struct rank *rank) {
    const struct table *table = rank->context;
    for (int communication = LS_AUTO; communication <= LS_RING; communication++)
        for (int dtype = LS_FLOAT32; dtype <= LS_INT64; dtype++)
            for (int op = LS_SUM; op <= LS_MAX; op++) {
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
    if (status || strcmp(ls_group_describe(rank->group), "shared memory") != 0) return status;
    status = ls_group_share(rank->group, (size_t)local * pool_stride(table), &pool);
    table->pools[rank->rank] = pool;
    if (!status) status = all_ops(rank);
    table->pools[rank->rank] = NULL;
    ls_group_unshare(rank->group, pool);
    return status;
}

static void run_table(const struct world_options *options, struct table *table) {
    size_t largest = 8;
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

static const size_t small_counts[] = {0, 1, 2, 3, 7, 8, 9, 64, 1000};
static const size_t middle_counts[] = {5, 4099, 20011};
static const size_t large_counts[] = {300001};
#define COUNTS(array) .counts = array, .count_count = (int)(sizeof(array) / sizeof(array[0]))

/* One leaf a worker. */
static const int even[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
/* layouts[workers - 1]: uneven ones. */
static const int uneven[8][9] = {
    {0, 8},
    {0, 1, 3},
    {0, 3, 4, 6},
    {0, 2, 3, 6, 7},
    {0, 1, 3, 6, 7, 9},
    {0, 5, 6, 7, 8, 10, 11},
    {0, 1, 2, 4, 5, 6, 8, 9},
    {0, 1, 3, 4, 6, 7, 8, 11, 12},
};

START_TEST(table_over_local_links) {
    struct world_options options = {.size = _i + 1};
    struct table table = {.first = even, COUNTS(small_counts), .breadth = ALL_TYPES};
    run_table(&options, &table);
    table.first = uneven[_i];
    run_table(&options, &table);
}
END_TEST

START_TEST(many_leaves_on_one_worker) {
    static const int heavy[] = {0, 8, 9, 25}, single[] = {0, 13};
    struct world_options options = {.size = 3};
    struct table table = {.first = heavy, COUNTS(small_counts), .breadth = ALL_TYPES};
    run_table(&options, &table);
    options.size = 1;
    table.first = single;
    run_table(&options, &table);
}
END_TEST

START_TEST(table_over_tcp) {
    static const int sizes[] = {2, 3, 5};
    struct world_options options = {.size = sizes[_i], .wire = WIRE_TCP};
    struct table table = {.first = uneven[sizes[_i] - 1], COUNTS(small_counts), .breadth = TWO_TYPES};
    run_table(&options, &table);
    table = (struct table){.first = even, COUNTS(middle_counts), .breadth = ALL_TYPES};
    run_table(&options, &table);
}
END_TEST

/* Small segments, so that every pipeline has many; sends and receives end in the middle of elements. */
START_TEST(table_over_odd_links) {
    static const int sizes[] = {2, 3, 4};
    struct world_options options = {.size = sizes[_i], .wire = WIRE_ODD, .segment = 1000};
    static const size_t counts[] = {1, 9, 1001};
    struct table table = {.first = uneven[sizes[_i] - 1], COUNTS(counts), .breadth = ALL_TYPES};
    run_table(&options, &table);
    static const size_t longer[] = {24007};
    table = (struct table){.first = even, COUNTS(longer), .breadth = TWO_TYPES};
    run_table(&options, &table);
}
END_TEST

START_TEST(table_over_shared_memory) {
    struct world_options options = {.size = _i + 1, .wire = WIRE_SHARED};
    struct table table = {.first = even, COUNTS(small_counts), .breadth = ALL_TYPES};
    run_table(&options, &table);
    table.first = uneven[_i];
    run_table(&options, &table);
    table = (struct table){.first = uneven[_i], COUNTS(middle_counts), .breadth = TWO_TYPES};
    run_table(&options, &table);
}
END_TEST

START_TEST(large_counts_over_shared_memory) {
    struct world_options options = {.size = _i + 2, .wire = WIRE_SHARED};
    struct table table = {.first = uneven[_i + 1], COUNTS(large_counts), .breadth = MEANS};
    run_table(&options, &table);
}
END_TEST

START_TEST(many_segments) {
    struct world_options options = {.size = _i + 2, .wire = _i & 1 ? WIRE_TCP : WIRE_LOCAL, .segment = 16384};
    struct table table = {.first = uneven[_i + 1], COUNTS(large_counts), .breadth = MEANS};
    run_table(&options, &table);
}
END_TEST

/* The bits of AUTO are those of one worker that holds all leaves, whatever the layout. */
START_TEST(layout_does_not_change_the_bits) {
    static const int layouts[][5] = {{0, 6}, {0, 3, 6}, {0, 1, 6}, {0, 2, 3, 6}, {0, 1, 2, 3, 6}};
    static const int sizes[] = {1, 2, 2, 3, 4};
    static const size_t counts[] = {20011};
    for (int wire = WIRE_LOCAL; wire <= WIRE_SHARED; wire++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct world_options options = {.size = sizes[i], .wire = (enum wire)wire};
            struct table table = {.first = layouts[i], COUNTS(counts), .breadth = TWO_TYPES};
            run_table(&options, &table);
        }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("collective/all_reduce");
    TCase *cases = tcase_create("table");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, table_over_local_links, 0, 8);
    tcase_add_test(cases, many_leaves_on_one_worker);
    tcase_add_loop_test(cases, table_over_tcp, 0, 3);
    tcase_add_loop_test(cases, table_over_odd_links, 0, 3);
    tcase_add_loop_test(cases, table_over_shared_memory, 0, 8);
    tcase_add_loop_test(cases, large_counts_over_shared_memory, 0, 3);
    tcase_add_loop_test(cases, many_segments, 0, 3);
    tcase_add_test(cases, layout_does_not_change_the_bits);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
