/* ls_model_set_frozen: after a fit the variables of the layers that it names are those of before, and no others. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "base/memory.h"
#include "base/shape.h"
#include "property/draw.h"
#include "train/toy.h"

enum { LAYERS = 6, CASES = 30 };
static const char *const names[LAYERS] = {"block_1", "block_1_norm", "block_2", "block_2_norm", "block_11", "head"};

static ls_status make_model(ls_strategy *strategy, ls_model **model) {
    const ls_layer layers[LAYERS] = {
        ls_dense(6, LS_TANH, .name = names[0]),    ls_batch_normalization(.name = names[1], .momentum = 0.5F),
        ls_dense(5, LS_SIGMOID, .name = names[2]), ls_batch_normalization(.name = names[3], .momentum = 0.5F),
        ls_dense(4, LS_TANH, .name = names[4]),    ls_dense(3, .name = names[5]),
    };
    ls_status status = ls_model_new(strategy, layers, LAYERS, model);
    return status ? status : ls_model_compile(*model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

/* Each layer is in the list or not; those with a common beginning come as patterns as well. */
static void draw_names(struct draw *draw, char *list, size_t size, bool listed[LAYERS]) {
    static const struct {
        const char *pattern;
        bool means[LAYERS];
    } patterns[] = {{"*_norm", {[1] = true, [3] = true}},
                    {"block_1*", {[0] = true, [1] = true, [4] = true}},
                    {"block_?", {[0] = true, [2] = true}},
                    {"block_[12]_norm", {[1] = true, [3] = true}}};
    size_t used = 0;
    for (size_t k = 0; k < COUNT_OF(patterns) + LAYERS; k++) {
        bool single = k >= COUNT_OF(patterns);
        if (!draw_once_in(draw, 4)) continue;
        used += (size_t)snprintf(list + used, size - used, "%s%s", used ? "," : "",
                                 single ? names[k - COUNT_OF(patterns)] : patterns[k].pattern);
        for (size_t i = 0; i < LAYERS; i++)
            if (single ? i == k - COUNT_OF(patterns) : patterns[k].means[i]) listed[i] = true;
    }
}

static size_t layer_of(const char *variable) {
    size_t length = strcspn(variable, "/"), i = 0;
    while (i < LAYERS && (strlen(names[i]) != length || strncmp(names[i], variable, length) != 0)) i++;
    ck_assert_uint_lt(i, LAYERS);
    return i;
}

/* Bytes of a copy, which the caller frees. */
static size_t copy_variable(const ls_model *model, int index, const char **name, void **copy) {
    ls_shape shape;
    const float *data;
    assert_ok(ls_model_variable(model, index, name, &shape, &data));
    size_t size = (size_t)ls_shape_count(&shape) * sizeof(float);
    *copy = memcpy(ls_alloc(size), data, size);
    return size;
}

static void check_fit(ls_model *model, ls_dataset *data, const bool frozen[LAYERS]) {
    void *before[4 * LAYERS] = {0}, *now;
    const char *name;
    assert_ok(ls_model_evaluate(model, data, NULL));
    for (int i = 0; i < ls_model_num_variables(model); i++) (void)copy_variable(model, i, &name, &before[i]);
    assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 2, .verbose = -1), NULL));
    for (int i = 0; i < ls_model_num_variables(model); i++) {
        size_t size = copy_variable(model, i, &name, &now);
        bool same = !memcmp(before[i], now, size);
        ck_assert_msg(same == frozen[layer_of(name)], "%s has%s changed", name, same ? " not" : "");
        ls_free(before[i]);
        ls_free(now);
    }
}

static void open_all(ls_strategy **strategy, ls_dataset **data) {
    static struct toy toy;
    fill_toy(&toy);
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), strategy));
    assert_ok(ls_dataset_arrays(&toy.features[0][0], LS_SHAPE(WIDTH), toy.labels, EXAMPLES, 3,
                                LS_DATASET(.batch_size = 8), data));
}

TEST(what_is_named_stays) {
    uint64_t seed = first_seed();
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    open_all(&strategy, &data);
    for (uint64_t k = 0; k < CASES; k++) {
        struct draw draw = draw_from(seed, k);
        char list[256] = "";
        bool frozen[LAYERS] = {false}, others = draw_once_in(&draw, 2);
        ls_model *model = NULL;
        draw_names(&draw, list, sizeof(list), frozen);
        for (size_t i = 0; i < LAYERS; i++) frozen[i] = frozen[i] != others;
        if (!*list || !memchr(frozen, false, sizeof(frozen))) continue;
        assert_ok(make_model(strategy, &model));
        if (others) assert_ok(ls_model_set_frozen(model, "*", true));
        assert_ok(ls_model_set_frozen(model, list, !others));
        check_fit(model, data, frozen);
        ls_model_free(model);
    }
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

TEST(what_cannot_be_is_named) {
    static const char *const wrong[] = {"", "blok_*", "block_1,", "head,tail", "block_1 ,head", "HEAD"};
    static const char *const named[] = {"''", "'blok_*'", "''", "'tail'", "'block_1 '", "'HEAD'"};
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    open_all(&strategy, &data);
    assert_ok(make_model(strategy, &model));
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        ck_assert_int_eq(ls_model_set_frozen(model, wrong[i], true), LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(ls_error(), named[i]), "%s", ls_error());
    }
    check_fit(model, data, (const bool[LAYERS]){false});
    ck_assert_int_eq(ls_model_set_frozen(model, "head", true), LS_FAILED_PRECONDITION);
    ls_model_free(model);
    assert_ok(make_model(strategy, &model));
    assert_ok(ls_model_set_frozen(model, "*", true));
    ck_assert_int_eq(ls_model_fit(model, data, LS_FIT(.verbose = -1), NULL), LS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(ls_error(), "nothing to train"), "%s", ls_error());
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
}

TESTS("train/set_frozen")
