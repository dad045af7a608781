/* Outputs that are kept for who comes back: the newest, as bytes and back, and bytes that are none. */
#include <string.h>

#include "base/memory.h"
#include "harness.h"
#include "strategy/saved.h"

#define ROOM (sizeof(float) * 6) /* bytes of two of the lists' outputs */

/* Calls 0 to count - 1 of 3 values each: 10 call, 10 call + 1, ... */
static struct ls_kept *make(int count, size_t most) {
    struct ls_kept *list = NULL;
    for (int call = 0; call < count; call++) {
        const float values[3] = {(float)(10 * call), (float)(10 * call + 1), (float)(10 * call + 2)};
        ck_assert_int_eq(ls_kept_add(&list, &(struct ls_kept_heading){call, 1, 3}, values, most), LS_OK);
    }
    return list;
}

static void check_call(const struct ls_kept *list, int call) {
    const struct ls_kept *kept = ls_kept_find(list, call);
    ck_assert_ptr_nonnull(kept);
    ck_assert(kept->heading.rows == 1 && kept->heading.width == 3);
    for (int i = 0; i < 3; i++) ck_assert(kept->values[i] == (float)(10 * call + i));
}

START_TEST(the_oldest_go) {
    struct ls_kept *list = make(5, ROOM), *single = make(5, 0);
    for (int call = 0; call < 2; call++) ck_assert_ptr_null(ls_kept_find(list, call));
    for (int call = 2; call < 5; call++) check_call(list, call);
    ck_assert_ptr_null(ls_kept_find(single, 3));
    check_call(single, 4);
    ck_assert_ptr_null(ls_kept_find(NULL, 0));
    ls_kept_free(list);
    ls_kept_free(single);
    ls_kept_free(NULL);
}
END_TEST

START_TEST(as_bytes_and_back) {
    for (int count = 0; count < 4; count++) {
        struct ls_kept *list = make(count, 4 * ROOM), *back = list;
        size_t size = ls_kept_size(list);
        char *bytes = ls_alloc(size);
        ls_kept_write(list, bytes);
        ck_assert_uint_eq(size, (size_t)count * (sizeof(struct ls_kept_heading) + 16));
        ck_assert_int_eq(ls_kept_read(bytes, size, &back), LS_OK);
        for (int call = 0; call < count; call++) check_call(back, call);
        ck_assert_uint_eq(ls_kept_size(back), size);
        ls_kept_free(list);
        ls_kept_free(back);
        ls_free(bytes);
    }
}
END_TEST

/* Cut anywhere but between two, and with a count that is too large. */
START_TEST(bytes_that_are_none) {
    struct ls_kept *list = make(3, 4 * ROOM), *back = list;
    size_t size = ls_kept_size(list), each = size / 3;
    char *bytes = ls_alloc(size);
    ls_kept_write(list, bytes);
    for (size_t cut = 1; cut < size; cut++) {
        if (cut % each == 0) continue;
        ck_assert_int_eq(ls_kept_read(bytes, cut, &back), LS_DATA_LOSS);
        ck_assert_ptr_eq(back, list);
    }
    static const int64_t wrong[] = {-1, 5, INT64_MAX, INT64_MAX / 3 + 1, INT64_MIN};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        memcpy(bytes + 2 * each + sizeof(int64_t), &wrong[i], sizeof(wrong[i])); /* the last one's rows */
        ck_assert_int_eq(ls_kept_read(bytes, size, &back), LS_DATA_LOSS);
    }
    ls_kept_free(list);
    ls_free(bytes);
}
END_TEST

/* Who needs what is not kept hears which call it was; and where nobody can come back, nothing is kept. */
START_TEST(what_is_not_kept_is_named) {
    const float values[3] = {1, 2, 3};
    const struct ls_kept *kept = NULL;
    ls_strategy *strategy = NULL;
    ck_assert_int_eq(ls_one_device_strategy_new("cpu:0", &strategy), LS_OK);
    strategy->training.made = 1;
    ck_assert_int_eq(ls_training_keep(strategy, 1, 3, values), LS_OK);
    ck_assert_ptr_null(strategy->training.outputs);
    strategy->training.outputs = make(2, ROOM);
    ck_assert_int_eq(ls_training_outputs(strategy, 1, &kept), LS_OK);
    ck_assert(kept->values[0] == 10);
    ck_assert_int_eq(ls_training_outputs(strategy, 5, &kept), LS_FAILED_PRECONDITION);
    ck_assert_msg(strstr(ls_error(), "call 6") && strstr(ls_error(), "not kept"), "%s", ls_error());
    ls_strategy_free(strategy);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kept");
    TCase *tests = tcase_create("kept");
    tcase_add_test(tests, the_oldest_go);
    tcase_add_test(tests, as_bytes_and_back);
    tcase_add_test(tests, bytes_that_are_none);
    tcase_add_test(tests, what_is_not_kept_is_named);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
