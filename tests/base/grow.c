/* Arrays that grow: what they keep, how large they become, and that without memory nothing changes. */
#include "base/grow.h"

#include "base/random.h"
#include "harness.h"

enum { ROUNDS = 300, MOST = 5000 };

struct draws {
    uint64_t seed, index;
};

static size_t below(struct draws *draws, size_t limit) {
    return ls_random_bits(draws->seed, 0, draws->index++) % limit;
}

struct thing {
    uint64_t value;
    char name[24];
};

static uint64_t value_of(size_t i) {
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void check_things(const struct thing *things, size_t used, size_t capacity) {
    for (size_t i = 0; i < capacity; i++) ck_assert_uint_eq(things[i].value, i < used ? value_of(i) : 0);
}

/* Needs are drawn. The capacity is the first one, doubled as often as needed. */
TEST_EACH(random_growth_keeps_and_doubles, ROUNDS) {
    struct draws draws = {.seed = (uint64_t)_i};
    struct thing *things = NULL;
    size_t first = 1 + below(&draws, 40), used = 0;
    uint64_t limit = 1 + below(&draws, MOST);
    int capacity = 0;
    while (used < limit) {
        size_t before = (size_t)capacity, needed = used + below(&draws, 1 + used / 2 + 2);
        size_t want = before ? before : first;
        while (want < needed) want *= 2;
        if (needed <= before) want = before;
        assert_ok(LS_GROW(things, capacity, needed, first, "things"));
        ck_assert_uint_eq((size_t)capacity, want);
        check_things(things, used, (size_t)capacity);
        for (; used < needed; used++) things[used].value = value_of(used);
    }
    ls_free(things);
}

TEST(one_after_the_other) {
    int64_t *numbers = NULL, count = 0, capacity = 0;
    for (; count < 1000; count++) {
        assert_ok(LS_GROW(numbers, capacity, count + 1, 3, "numbers"));
        numbers[count] = -count;
    }
    ck_assert_int_eq(capacity, 3 * 512);
    for (int64_t i = 0; i < count; i++) ck_assert_int_eq(numbers[i], -i);
    ls_free(numbers);
}

TEST(nothing_is_needed) {
    char *bytes = NULL;
    size_t capacity = 0;
    assert_ok(LS_GROW(bytes, capacity, 0, 8, "bytes"));
    ck_assert_ptr_null(bytes);
    ck_assert_uint_eq(capacity, 0);
}

/* Sizes that no memory has, whose products are beyond size_t, and more than may be. */
static const struct {
    size_t element, needed, most;
} too_large[] = {
    {sizeof(struct thing), SIZE_MAX / sizeof(struct thing), SIZE_MAX},
    {sizeof(struct thing), SIZE_MAX / sizeof(struct thing) + 2, SIZE_MAX},
    {sizeof(struct thing), SIZE_MAX / 2 + 2, SIZE_MAX},
    {sizeof(struct thing), SIZE_MAX, SIZE_MAX},
    {(size_t)1 << 61, 8, SIZE_MAX},
    {1, 1001, 1000},
    {1, 65, 127},
};
#define TOO_LARGE (int)(sizeof(too_large) / sizeof(too_large[0]))

TEST_EACH(too_much_changes_nothing, TOO_LARGE) {
    struct thing *things = NULL, *before;
    size_t capacity = 0;
    assert_ok(LS_GROW(things, capacity, 4, 4, "things"));
    for (size_t i = 0; i < 4; i++) things[i].value = value_of(i);
    before = things;
    if (too_large[_i].element == 1) capacity *= sizeof(*things) / 2;
    size_t had = capacity;
    const struct ls_growth growth = {too_large[_i].element, 4, too_large[_i].most, "a cake"};
    assert_fails(ls_grow(&things, &capacity, too_large[_i].needed, &growth), LS_RESOURCE_EXHAUSTED,
                 "no memory for a cake (");
    ck_assert_ptr_eq(things, before);
    ck_assert_uint_eq(capacity, had);
    check_things(things, 4, 4);
    ls_free(things);
}

TEST(an_int_does_not_overflow) {
    char *bytes = NULL;
    int capacity = 0;
    ck_assert_int_eq(LS_GROW(bytes, capacity, (size_t)INT32_MAX + 1, 1, "bytes"), LS_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(capacity, 0);
    ck_assert_ptr_null(bytes);
}

TEST(the_error_names_the_bytes) {
    struct thing *things = NULL;
    size_t capacity = 0;
    ck_assert_int_eq(ls_grow(&things, &capacity, 9, &(const struct ls_growth){32, 8, 8, "things"}),
                     LS_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(ls_error(), "no memory for things (512 bytes)");
}

TESTS("grow")
