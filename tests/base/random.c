/* Tests of base/random: the published known answers of Philox4x32-10, and what is drawn from it. */
#include "base/random.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "harness.h"

static const struct {
    uint32_t counter[4], key[2], answer[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static uint64_t join(const uint32_t words[2]) {
    return (uint64_t)words[1] << 32 | words[0];
}

TEST_EACH(known_answers, 3) {
    uint32_t words[4];
    ls_philox_words(join(known[_i].key), join(known[_i].counter + 2), join(known[_i].counter), words);
    ck_assert_mem_eq(words, known[_i].answer, sizeof(words));
}

TEST(bits_are_the_first_words) {
    uint32_t words[4];
    ls_philox_words(5, 6, 7, words);
    ck_assert_uint_eq(ls_random_bits(5, 6, 7), (uint64_t)words[0] << 32 | words[1]);
    ck_assert_uint_ne(ls_random_bits(5, 6, 7), ls_random_bits(5, 6, 8));
    ck_assert_uint_ne(ls_random_bits(5, 6, 7), ls_random_bits(5, 7, 7));
    ck_assert_uint_ne(ls_random_bits(5, 6, 7), ls_random_bits(6, 6, 7));
}

/* Mean and variance of n draws lie within five standard errors of what they should be. */
TEST(moments) {
    enum { DRAWS = 200000 };
    double uniform = 0, normal = 0, square = 0, cube = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        float u = (float)(ls_random_bits(3, 1, i) >> 40) * 0x1p-24F;
        double z = ls_random_normal(3, 2, i);
        ck_assert(u >= 0 && u < 1 && isfinite(z));
        uniform += (double)u, normal += z, square += z * z, cube += z * z * z;
    }
    double error = 5 / sqrt(DRAWS);
    ck_assert_double_eq_tol(uniform / DRAWS, 0.5, error * sqrt(1.0 / 12));
    ck_assert_double_eq_tol(normal / DRAWS, 0, error);
    ck_assert_double_eq_tol(square / DRAWS, 1, error * sqrt(2));
    ck_assert_double_eq_tol(cube / DRAWS, 0, error * sqrt(15));
}

TEST(permutations) {
    int64_t order[1000], other[1000];
    bool seen[1000] = {false};
    ls_random_permutation(9, 1, 1000, order);
    for (int i = 0; i < 1000; i++) {
        ck_assert(order[i] >= 0 && order[i] < 1000 && !seen[order[i]]);
        seen[order[i]] = true;
    }
    ls_random_permutation(9, 1, 1000, other);
    ck_assert_mem_eq(order, other, sizeof(order));
    ls_random_permutation(9, 2, 1000, other);
    ck_assert_mem_ne(order, other, sizeof(order));
    ls_random_permutation(9, 1, 0, order);
    ls_random_permutation(9, 1, 1, order);
    ck_assert_int_eq(order[0], 0);
}

/* Each of the 24 orders of four things comes up about equally often (chi-squared with 23 degrees, p = 1e-6). */
TEST(permutations_are_fair) {
    int counts[256] = {0}, orders = 0;
    double chi = 0;
    for (uint64_t seed = 0; seed < 24000; seed++) {
        int64_t order[4];
        ls_random_permutation(seed, 0, 4, order);
        counts[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]]++;
    }
    for (int i = 0; i < 256; i++) {
        if (!counts[i]) continue;
        orders++;
        chi += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
    }
    ck_assert_int_eq(orders, 24);
    ck_assert_double_lt(chi, 72);
}

TEST(stream_ids) {
    ck_assert_uint_eq(ls_random_stream(""), 0xcbf29ce484222325U);
    ck_assert_uint_eq(ls_random_stream("a"), 0xaf63dc4c8601ec8cU);
    ck_assert_uint_eq(ls_random_stream("foobar"), 0x85944171f73967e8U);
}

TESTS("random", .seconds = 60)
