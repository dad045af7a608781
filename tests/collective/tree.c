/* The tree's shape, maximal subtrees, and folds against hand-written orders. */
#include "collective/schedule/tree.h"

#include <string.h>

#include "base/half.h"
#include "collective/schedule/fold.h"
#include "bench/oracle.h"
#include "collective/schedule/reduce.h"
#include "harness.h"

TEST(splits) {
    static const int expected[][2] = {{2, 1}, {3, 2}, {4, 2}, {5, 4},  {6, 4},
                                      {7, 4}, {8, 4}, {9, 8}, {16, 8}, {17, 16}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        ck_assert_int_eq(ls_tree_split(expected[i][0]), expected[i][1]);
    ck_assert_int_eq(ls_tree_split(INT32_MAX), 1 << 30);
}

/* By definition: every node inside the range whose parent is not. */
static int nodes_inside(int low, int high, int from, int to, struct ls_subtree *found, int count) {
    if (low >= from && high <= to) {
        found[count] = (struct ls_subtree){low, high};
        return count + 1;
    }
    if (high - low == 1) return count;
    int left = 1;
    while (2 * left < high - low) left *= 2;
    count = nodes_inside(low, low + left, from, to, found, count);
    return nodes_inside(low + left, high, from, to, found, count);
}

static int maximal(int n, int low, int high, struct ls_subtree *found, int capacity) {
    return ls_tree_maximal(n, &(struct ls_subtree){low, high}, 1, found, capacity);
}

TEST(maximal_subtrees) {
    for (int n = 1; n <= 40; n++)
        for (int low = 0; low < n; low++)
            for (int high = low + 1; high <= n; high++) {
                struct ls_subtree got[64], want[64];
                int count = maximal(n, low, high, got, 64);
                ck_assert_int_eq(count, nodes_inside(0, n, low, high, want, 0));
                ck_assert_mem_eq(got, want, (size_t)count * sizeof(got[0]));
                ck_assert_int_eq(maximal(n, low, high, NULL, 0), count);
            }
    ck_assert_int_le(maximal(INT32_MAX, 1, INT32_MAX - 1, NULL, 0), 64);
    ck_assert_int_eq(maximal(5, 2, 2, NULL, 0), 0);
}

/* Nodes that lie in the set whose parents do not; bit i of set is leaf i. */
static int nodes_of_set(int low, int high, unsigned set, struct ls_subtree *found, int count) {
    unsigned node = ((1U << (high - low)) - 1) << low;
    if ((set & node) == node) {
        found[count] = (struct ls_subtree){low, high};
        return count + 1;
    }
    if (high - low == 1) return count;
    int left = 1;
    while (2 * left < high - low) left *= 2;
    count = nodes_of_set(low, low + left, set, found, count);
    return nodes_of_set(low + left, high, set, found, count);
}

TEST(maximal_subtrees_of_interleaved_ranges) {
    for (int n = 1; n <= 11; n++)
        for (unsigned set = 0; set < 1U << n; set++) {
            struct ls_subtree ranges[8], got[16], want[16];
            int count = 0;
            for (int i = 0; i < n; i++) {
                if (!(set >> i & 1)) continue;
                if (count && ranges[count - 1].high == i)
                    ranges[count - 1].high++;
                else
                    ranges[count++] = (struct ls_subtree){i, i + 1};
            }
            int found = ls_tree_maximal(n, ranges, count, got, 16);
            ck_assert_int_eq(found, nodes_of_set(0, n, set, want, 0));
            ck_assert_mem_eq(got, want, (size_t)found * sizeof(got[0]));
        }
}

enum { LEAVES = 37, COUNT = 2500 };

TEST(fold_of_a_whole_tree) {
    static float leaves[LEAVES][COUNT], expected[COUNT], out[COUNT];
    unsigned char *pointers[LEAVES];
    const void *inputs[LEAVES];
    for (int n = 1; n <= LEAVES; n++) {
        int first[2] = {0, n};
        for (int i = 0; i < n; i++) {
            oracle_fill(LS_FLOAT32, leaves[i], COUNT, (uint64_t)i);
            pointers[i] = (unsigned char *)leaves[i];
            inputs[i] = leaves[i];
        }
        struct oracle oracle = {LS_AUTO, LS_SUM, LS_FLOAT32, COUNT, 1, first};
        oracle_all_reduce(&oracle, pointers, expected);
        ls_fold_tree(LS_SUM, LS_FLOAT32, (struct ls_fold){.n = n, .count = n, .data = inputs}, out, COUNT);
        ck_assert_uint_eq(oracle_compare(LS_FLOAT32, expected, out, COUNT), COUNT);
        float *last = leaves[n / 2]; /* out may be a leaf */
        ls_fold_tree(LS_SUM, LS_FLOAT32, (struct ls_fold){.n = n, .count = n, .data = inputs}, last, COUNT);
        ck_assert_uint_eq(oracle_compare(LS_FLOAT32, expected, last, COUNT), COUNT);
    }
}

/* Leaves [3, 6) of 7 = (0 1 2 3)(4 5 6): 3 comes alone from the left half, 4 and 5 are a node. */
TEST(fold_of_a_part_passes_missing_leaves_through) {
    float a[1] = {1}, b[1] = {0x1p-24F}, c[1] = {0x1p-24F}, out[1];
    const void *inputs[3] = {a, b, c};
    ls_fold_tree(LS_SUM, LS_FLOAT32, (struct ls_fold){.n = 7, .low = 3, .count = 3, .data = inputs}, out, 1);
    ck_assert_float_eq(out[0], 1 + 0x1p-23F); /* b + c first; from the left it would be 1 */
    float zero[1] = {-0.0F};
    const void *alone[1] = {zero};
    const struct ls_fold third = {.n = 7, .low = 2, .count = 1, .data = alone};
    ls_fold_tree(LS_SUM, LS_FLOAT32, third, out, 1);
    ck_assert(__builtin_signbit(out[0])); /* never added to +0 */
    ls_fold_tree(LS_SUM, LS_FLOAT32, third, out, 0);
}

/* Folding subtrees' results gives what folding the leaves gives, for every way to cut 11 leaves over two workers. */
TEST(fold_of_partials) {
    enum { N = 11 };
    static uint16_t leaves[N][COUNT], partial[64][COUNT], expected[COUNT], out[COUNT];
    const void *inputs[N], *data[64];
    for (int i = 0; i < N; i++) {
        oracle_fill(LS_BFLOAT16, leaves[i], COUNT, (uint64_t)i);
        inputs[i] = leaves[i];
    }
    ls_fold_tree(LS_SUM, LS_BFLOAT16, (struct ls_fold){.n = N, .count = N, .data = inputs}, expected, COUNT);
    for (int cut = 1; cut < N; cut++) {
        struct ls_subtree covers[64];
        int count = maximal(N, 0, cut, covers, 64);
        count += maximal(N, cut, N, covers + count, 64 - count);
        for (int i = 0; i < count; i++) {
            int low = covers[i].low, high = covers[i].high;
            const struct ls_fold part = {.n = N, .low = low, .count = high - low, .data = inputs + low};
            ls_fold_tree(LS_SUM, LS_BFLOAT16, part, partial[i], COUNT);
            data[i] = partial[i];
        }
        struct ls_fold fold = {ls_reduce_combine(LS_SUM, LS_BFLOAT16), 2, N, 0, count, data, covers};
        ls_fold_range(&fold, out, 0, COUNT * 2);
        ck_assert_uint_eq(oracle_compare(LS_BFLOAT16, expected, out, COUNT), COUNT);
        ls_fold_range(&fold, out + 1000, 2000, 999 * 2); /* any range alike */
        ck_assert_uint_eq(oracle_compare(LS_BFLOAT16, expected, out, COUNT), COUNT);
    }
}

/* Every pair of 16-bit patterns from a wide sample against float32 arithmetic with base's conversions. */
TEST(sums_of_16_bits) {
    enum { SAMPLE = 1024 };
    static uint16_t a[SAMPLE], b[SAMPLE], sum[SAMPLE];
    for (unsigned shift = 0; shift < 64; shift++) {
        for (unsigned i = 0; i < SAMPLE; i++) {
            a[i] = (uint16_t)(i * 64 + shift);
            b[i] = (uint16_t)((i * 40503U + shift * 977U) ^ (i << 9));
        }
        ls_reduce_combine(LS_SUM, LS_FLOAT16)(sum, a, b, SAMPLE - 3);
        for (unsigned i = 0; i < SAMPLE - 3; i++) {
            uint16_t want = ls_half_from_float(ls_half_to_float(a[i]) + ls_half_to_float(b[i]));
            ck_assert_uint_eq(oracle_compare(LS_FLOAT16, &want, &sum[i], 1), 1);
        }
        ls_reduce_combine(LS_SUM, LS_BFLOAT16)(sum, a, b, SAMPLE - 3);
        for (unsigned i = 0; i < SAMPLE - 3; i++) {
            uint16_t want =
                ls_half_bfloat16_from_float(ls_half_bfloat16_to_float(a[i]) + ls_half_bfloat16_to_float(b[i]));
            ck_assert_uint_eq(oracle_compare(LS_BFLOAT16, &want, &sum[i], 1), 1);
        }
    }
}

TEST(means_of_integers_truncate_toward_zero) {
    int32_t values[] = {7, -7, 8, -8, 1, -1, INT32_MIN};
    ls_reduce_divide(LS_INT32, values, 7, 4);
    static const int32_t expected[] = {1, -1, 2, -2, 0, 0, INT32_MIN / 4};
    ck_assert_mem_eq(values, expected, sizeof(values));
    int8_t bytes[] = {127, -128, 5, -5};
    static const int8_t few[] = {42, -42, 1, -1}, none[] = {0, 0, 0, 0};
    ls_reduce_divide(LS_INT8, bytes, 4, 3);
    ck_assert_mem_eq(bytes, few, sizeof(bytes));
    ls_reduce_divide(LS_INT8, bytes, 4, 256); /* which the type does not hold */
    ck_assert_mem_eq(bytes, none, sizeof(bytes));
    uint8_t counts[] = {255, 7}, halves[] = {127, 3};
    ls_reduce_divide(LS_UINT8, counts, 2, 2);
    ck_assert_mem_eq(counts, halves, sizeof(counts));
}

TEST(bools_are_one_or_zero) {
    static const unsigned char a[] = {0, 0, 1, 1, 2, 0, 2}, b[] = {0, 1, 0, 1, 0, 4, 4};
    static const unsigned char either[] = {0, 1, 1, 1, 1, 1, 1}, both[] = {0, 0, 0, 1, 0, 0, 1};
    for (int op = LS_SUM; op <= LS_PRODUCT; op++) {
        unsigned char got[7];
        ck_assert_int_eq(ls_reduce_check((ls_reduce_op)op, LS_BOOL), op == LS_MEAN ? LS_INVALID_ARGUMENT : LS_OK);
        if (op == LS_MEAN) continue;
        ls_reduce_combine((ls_reduce_op)op, LS_BOOL)(got, a, b, 7);
        ck_assert_mem_eq(got, op == LS_SUM || op == LS_MAX ? either : both, 7);
    }
}

TESTS("collective/tree", .seconds = 60)
