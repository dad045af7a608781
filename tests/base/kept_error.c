/* Errors that are kept: the first of many, to the byte, and in another thread. */
#include "base/kept_error.h"

#include "base/random.h"
#include "base/thread.h"
#include "harness.h"

enum { ROUNDS = 300, ERRORS = 20 };

TEST(nothing_is_kept_at_first) {
    struct ls_kept_error kept = {LS_OK};
    (void)ls_fail(LS_INTERNAL, "before");
    assert_ok(ls_kept_error_raise(&kept));
    ck_assert_str_eq(ls_error(), "before");
    ls_kept_error_first(&kept, LS_OK);
    ls_kept_error_set(&kept, LS_OK);
    assert_ok(kept.status);
}

struct draws {
    uint64_t seed, index;
};

static size_t below(struct draws *draws, size_t limit) {
    return ls_random_bits(draws->seed, 0, draws->index++) % limit;
}

/* Any bytes of any length, LS_OK between them: the reference is a plain list. */
static ls_status draw_error(struct draws *draws, char text[LS_ERROR_SIZE]) {
    ls_status status = (ls_status)below(draws, LS_UNAUTHENTICATED + 1);
    size_t length = below(draws, LS_ERROR_SIZE);
    for (size_t i = 0; i < length; i++) text[i] = (char)(1 + below(draws, 127));
    text[length] = 0;
    return status;
}

TEST_EACH(random_errors_are_kept_to_the_byte, ROUNDS) {
    struct draws draws = {.seed = (uint64_t)_i};
    struct ls_kept_error first = {LS_OK}, last = {LS_OK};
    char first_text[LS_ERROR_SIZE] = "", text[LS_ERROR_SIZE];
    ls_status first_status = LS_OK;
    for (int i = 0; i < ERRORS; i++) {
        ls_status status = draw_error(&draws, text);
        (void)ls_fail(status, "%s", text);
        if (!first_status && status) memcpy(first_text, text, sizeof(text));
        if (!first_status) first_status = status;
        const struct ls_kept_error now = ls_kept_error_of(status);
        ls_kept_error_first(&first, status);
        ls_kept_error_set(&last, status);
        (void)ls_fail(LS_INTERNAL, "another");
        ck_assert_str_eq(now.message, text);
        ck_assert_int_eq(ls_kept_error_raise(&last), status);
        ck_assert_str_eq(ls_error(), status ? text : "another");
        ck_assert_int_eq(ls_kept_error_raise(&first), first_status);
        if (first_status) ck_assert_str_eq(ls_error(), first_text);
        ck_assert_int_eq(ls_kept_error_raise(&now), status);
    }
}

static void *fail_elsewhere(void *argument) {
    ls_kept_error_first(argument, ls_fail(LS_DATA_LOSS, "%s", "100% elsewhere"));
    ls_kept_error_first(argument, ls_fail(LS_INTERNAL, "later"));
    return NULL;
}

TEST(another_thread_raises_it) {
    struct ls_kept_error kept = {LS_OK};
    pthread_t thread;
    assert_ok(ls_thread_start(&thread, "other", fail_elsewhere, &kept));
    (void)pthread_join(thread, NULL);
    (void)ls_fail(LS_INTERNAL, "here");
    ck_assert_int_eq(ls_kept_error_raise(&kept), LS_DATA_LOSS);
    ck_assert_str_eq(ls_error(), "100% elsewhere");
}

TESTS("kept_error")
