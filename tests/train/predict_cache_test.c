/* Outputs that are kept for who comes back: the newest, as bytes and back, and bytes that are none. */
#include <string.h>

#include "base/memory.h"
#include "harness.h"
#include "train/training_state.h"

#define ROOM (sizeof(float) * 6) /* bytes of two of the lists' outputs */

/* Calls 0 to count - 1 of 3 values each: 10 call, 10 call + 1, ... */
static struct ls_predict_cache *make(int count, size_t most) {
    struct ls_predict_cache *list = NULL;
    for (int call = 0; call < count; call++) {
        const float values[3] = {(float)(10 * call), (float)(10 * call + 1), (float)(10 * call + 2)};
        assert_ok(ls_predict_cache_add(&list, &(struct ls_predict_cache_heading){call, 1, 3}, values, most));
    }
    return list;
}

static void check_call(const struct ls_predict_cache *list, int call) {
    const struct ls_predict_cache *kept = ls_predict_cache_find(list, call);
    ck_assert_ptr_nonnull(kept);
    ck_assert(kept->heading.rows == 1 && kept->heading.width == 3);
    for (int i = 0; i < 3; i++) ck_assert(kept->values[i] == (float)(10 * call + i));
}

TEST(the_oldest_go) {
    struct ls_predict_cache *list = make(5, ROOM), *single = make(5, 0);
    for (int call = 0; call < 2; call++) ck_assert_ptr_null(ls_predict_cache_find(list, call));
    for (int call = 2; call < 5; call++) check_call(list, call);
    ck_assert_ptr_null(ls_predict_cache_find(single, 3));
    check_call(single, 4);
    ck_assert_ptr_null(ls_predict_cache_find(NULL, 0));
    ls_predict_cache_free(list);
    ls_predict_cache_free(single);
    ls_predict_cache_free(NULL);
}

TEST(as_bytes_and_back) {
    for (int count = 0; count < 4; count++) {
        struct ls_predict_cache *list = make(count, 4 * ROOM), *back = list;
        size_t size = ls_predict_cache_size(list);
        char *bytes = ls_alloc(size);
        ls_predict_cache_write(list, bytes);
        ck_assert_uint_eq(size, (size_t)count * (sizeof(struct ls_predict_cache_heading) + 16));
        assert_ok(ls_predict_cache_read(bytes, size, &back));
        for (int call = 0; call < count; call++) check_call(back, call);
        ck_assert_uint_eq(ls_predict_cache_size(back), size);
        ls_predict_cache_free(list);
        ls_predict_cache_free(back);
        ls_free(bytes);
    }
}

/* Cut anywhere but between two, and with a count that is too large. */
TEST(bytes_that_are_none) {
    struct ls_predict_cache *list = make(3, 4 * ROOM), *back = list;
    size_t size = ls_predict_cache_size(list), each = size / 3;
    char *bytes = ls_alloc(size);
    ls_predict_cache_write(list, bytes);
    for (size_t cut = 1; cut < size; cut++) {
        if (cut % each == 0) continue;
        ck_assert_int_eq(ls_predict_cache_read(bytes, cut, &back), LS_DATA_LOSS);
        ck_assert_ptr_eq(back, list);
    }
    static const int64_t wrong[] = {-1, 5, INT64_MAX, INT64_MAX / 3 + 1, INT64_MIN};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        memcpy(bytes + 2 * each + sizeof(int64_t), &wrong[i], sizeof(wrong[i])); /* the last one's rows */
        ck_assert_int_eq(ls_predict_cache_read(bytes, size, &back), LS_DATA_LOSS);
    }
    ls_predict_cache_free(list);
    ls_free(bytes);
}

/* A worker that needs a result that is not kept hears the number of the call. Without restarts nothing is kept. */
TEST(what_is_not_kept_is_named) {
    const float values[3] = {1, 2, 3};
    const struct ls_predict_cache *kept = NULL;
    ls_strategy *strategy = NULL;
    ls_model *model = NULL;
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(1)), &model));
    struct ls_training *training = strategy->training;
    training->made = 1;
    assert_ok(ls_training_keep(strategy, 1, 3, values));
    ck_assert_ptr_null(training->outputs);
    training->outputs = make(2, ROOM);
    assert_ok(ls_training_outputs(strategy, 1, &kept));
    ck_assert(kept->values[0] == 10);
    ck_assert_int_eq(ls_training_outputs(strategy, 5, &kept), LS_FAILED_PRECONDITION);
    ck_assert_msg(strstr(ls_error(), "call 6") && strstr(ls_error(), "not kept"), "%s", ls_error());
    ls_model_free(model);
    ls_strategy_free(strategy);
}

TESTS("kept")
