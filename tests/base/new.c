/* Makers begin with memory or its error. They end with a thing, or with its release. */
#include "base/new.h"

#include <stdio.h>

#include "base/random.h"
#include "harness.h"

enum { ROUNDS = 300, MOST = 1000 };

struct door {
    int64_t hinges[5];
};

static bool no_memory;
static int released;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return no_memory ? NULL : __real_calloc(count, size);
}

static int release(struct door *door) {
    ls_free(door);
    return ++released;
}

static ls_status make_door(ls_status status, struct door **door) {
    LS_NEW(struct door, made, "a door");
    for (int i = 0; i < 5; i++) ck_assert_int_eq(made->hinges[i], 0);
    made->hinges[0] = 7;
    return LS_HAND_OVER(status, door, made, release(made));
}

static ls_status make_doors(size_t count, size_t *bytes) {
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct door, doors, count, "doors");
    for (size_t i = 0; i < count; i++) ck_assert_int_eq(doors[i].hinges[i % 5], 0);
    memset(doors, 1, count * sizeof(*doors));
    *bytes = count * sizeof(*doors);
    return LS_OK;
}

/* Every status there is, with and without memory. */
TEST_EACH(a_door_or_an_error, 2 * (LS_UNAUTHENTICATED + 1)) {
    struct door *door = NULL;
    ls_status status = (ls_status)(_i / 2);
    bool missing = no_memory = _i % 2;
    released = 0;
    (void)ls_fail(LS_INTERNAL, "before");
    ls_status got = make_door(status, &door);
    no_memory = false;
    ck_assert_int_eq(got, missing ? LS_RESOURCE_EXHAUSTED : status);
    ck_assert_str_eq(ls_error(), missing ? "no memory for a door (40 bytes)" : "before");
    ck_assert_int_eq(released, !missing && status);
    ck_assert_int_eq(door != NULL, !missing && !status);
    if (door) ck_assert_int_eq(door->hinges[0], 7);
    ls_free(door);
}

TEST_EACH(random_counts_have_their_bytes, ROUNDS) {
    size_t count = ls_random_bits((uint64_t)_i, 0, 0) % MOST, bytes = SIZE_MAX;
    char want[64];
    no_memory = false;
    assert_ok(make_doors(count, &bytes));
    ck_assert_uint_eq(bytes, count * 40);
    no_memory = true;
    ck_assert_int_eq(make_doors(count, &bytes), LS_RESOURCE_EXHAUSTED);
    no_memory = false;
    (void)snprintf(want, sizeof(want), "no memory for doors (%zu bytes)", count * 40);
    ck_assert_str_eq(ls_error(), want);
}

TEST(a_count_that_overflows_is_an_error) {
    size_t bytes;
    ck_assert_int_eq(make_doors(SIZE_MAX / sizeof(struct door) + 2, &bytes), LS_RESOURCE_EXHAUSTED);
}

TESTS("new")
