/* Drawn variables of gpt2 and llama by Hugging Face's names and back: the same names, shapes and bits; and what is
 * wrong with such names is one error. */
#include "weights/huggingface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/shape.h"
#include "harness.h"

struct drawing {
    uint64_t seed, drawn;
    struct ls_weights weights;
};

static int64_t below(struct drawing *drawing, int64_t count) {
    return (int64_t)(ls_random_bits(drawing->seed, 0, drawing->drawn++) % (uint64_t)count);
}

static void add(struct drawing *drawing, ls_shape shape, int block, const char *name) {
    char full[96];
    size_t count = (size_t)ls_shape_count(&shape);
    float *values = ls_alloc_array(count, sizeof(*values));
    for (size_t i = 0; i < count; i++) values[i] = (float)below(drawing, 1 << 20);
    int used = block < 0 ? 0 : snprintf(full, sizeof(full), "block_%d_", block);
    (void)snprintf(full + used, sizeof(full) - (size_t)used, "%s", name);
    assert_ok(ls_weights_add(
        &drawing->weights,
        &(struct ls_weight){.name = full, .shape = shape, .values = (uint8_t *)values, .own = (uint8_t *)values}));
}

/* Heads may be wider or narrower together than the model is. Some have biases, and some no head of their own. */
static void draw_llama(struct drawing *drawing) {
    int64_t width = 2 * (1 + below(drawing, 4)), kv = 1 + below(drawing, width), inner = 1 + below(drawing, 9);
    int64_t ids = 1 + below(drawing, 7), queries = 1 + below(drawing, 9);
    bool biases = below(drawing, 4) == 0, tied = drawing->seed % 8 == 3;
    add(drawing, LS_SHAPE(ids, width), -1, "token_embedding/embeddings");
    for (int block = (int)below(drawing, 13); block >= 0; block--) {
        add(drawing, LS_SHAPE(width), block, "norm_1/scale");
        add(drawing, LS_SHAPE(width), block, "norm_2/scale");
        add(drawing, LS_SHAPE(width, queries + 2 * kv), block, "qkv/kernel");
        if (biases) add(drawing, LS_SHAPE(queries + 2 * kv), block, "qkv/bias");
        add(drawing, LS_SHAPE(queries, width), block, "projection/kernel");
        add(drawing, LS_SHAPE(width, inner), block, "gate/kernel");
        add(drawing, LS_SHAPE(width, inner), block, "up/kernel");
        add(drawing, LS_SHAPE(inner, width), block, "down/kernel");
    }
    add(drawing, LS_SHAPE(width), -1, "final_norm/scale");
    if (!tied) add(drawing, LS_SHAPE(width, ids), -1, "predictions/kernel");
    drawing->weights.head = tied ? LS_HEAD_TIED : LS_HEAD_UNTOLD;
}

static void draw_gpt2(struct drawing *drawing) {
    static const char *const dense[] = {"qkv", "projection", "expand", "contract"};
    int64_t width = 1 + below(drawing, 8);
    char name[32];
    add(drawing, LS_SHAPE(1 + below(drawing, 9), width), -1, "token_embedding/embeddings");
    add(drawing, LS_SHAPE(1 + below(drawing, 9), width), -1, "position_embedding/embeddings");
    for (int block = (int)below(drawing, 13); block >= 0; block--) {
        for (size_t i = 0; i < COUNT_OF(dense); i++) {
            int64_t out = 1 + below(drawing, 9);
            (void)snprintf(name, sizeof(name), "%s/kernel", dense[i]);
            add(drawing, LS_SHAPE(width, out), block, name);
            (void)snprintf(name, sizeof(name), "%s/bias", dense[i]);
            add(drawing, LS_SHAPE(out), block, name);
        }
        add(drawing, LS_SHAPE(width), block, "norm_1/gamma");
        add(drawing, LS_SHAPE(width), block, "norm_1/beta");
        add(drawing, LS_SHAPE(width), block, "norm_2/gamma");
        add(drawing, LS_SHAPE(width), block, "norm_2/beta");
    }
    add(drawing, LS_SHAPE(width), -1, "final_norm/gamma");
    add(drawing, LS_SHAPE(width), -1, "final_norm/beta");
    if (drawing->seed % 8 != 6) return;
    add(drawing, LS_SHAPE(width, 1 + below(drawing, 9)), -1, "predictions/kernel");
    drawing->weights.head = LS_HEAD_OWN;
}

static struct ls_weights draw_weights(uint64_t seed) {
    struct drawing drawing = {.seed = seed};
    (seed % 2 ? draw_llama : draw_gpt2)(&drawing);
    assert_ok(ls_weights_sort("drawn", &drawing.weights));
    return drawing.weights;
}

static void assert_same_weights(const struct ls_weights *a, const struct ls_weights *b) {
    ck_assert_uint_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        ck_assert_str_eq(a->items[i].name, b->items[i].name);
        ck_assert(ls_shape_equal(&a->items[i].shape, &b->items[i].shape));
        ck_assert_mem_eq(a->items[i].values, b->items[i].values,
                         (size_t)ls_shape_count(&a->items[i].shape) * sizeof(float));
    }
}

/* As GPT-2's own file: without the prefix, with masks that are no floats, and with the head that is the embedding. */
static void make_bare(struct ls_weights *weights) {
    static const char prefix[] = "transformer.";
    for (size_t i = 0; i < weights->count; i++) {
        char *name = weights->items[i].name;
        if (!strcmp(name, "lm_head.weight")) continue;
        ck_assert_msg(!strncmp(name, prefix, sizeof(prefix) - 1), "%s", name);
        memmove(name, name + sizeof(prefix) - 1, strlen(name) - sizeof(prefix) + 2);
    }
    assert_ok(ls_weights_add(weights, &(struct ls_weight){.name = (char[]){"h.0.attn.bias"}, .unread = "of type U8"}));
    assert_ok(ls_weights_add(weights, &(struct ls_weight){.name = (char[]){"lm_head.weight"}, .unread = "of type U8"}));
    assert_ok(ls_weights_sort("bare", weights));
}

TEST(drawn_variables_come_back) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct ls_weights weights = draw_weights(seed), wanted = draw_weights(seed);
        size_t count = weights.count;
        assert_ok(ls_huggingface_write("drawn", &weights));
        ck_assert_uint_ge(weights.count, count);
        ck_assert_str_eq(weights.format, "pt");
        ck_assert_ptr_null(ls_weights_find(&weights, "token_embedding/embeddings"));
        if (seed % 4 == 0) make_bare(&weights);
        assert_ok(ls_huggingface_read("drawn", &weights));
        assert_same_weights(&weights, &wanted);
        ls_weights_free(&weights);
        ls_weights_free(&wanted);
    }
}

static void remove_weight(struct ls_weights *weights, const char *name) {
    const struct ls_weight *found = ls_weights_find(weights, name);
    ck_assert_ptr_nonnull(found);
    size_t at = (size_t)(found - weights->items);
    ls_free(weights->items[at].name);
    ls_free(weights->items[at].own);
    memmove(&weights->items[at], &weights->items[at + 1], (--weights->count - at) * sizeof(*weights->items));
}

static struct ls_weight *find_weight(struct ls_weights *weights, const char *name) {
    const struct ls_weight *found = ls_weights_find(weights, name);
    ck_assert_ptr_nonnull(found);
    return &weights->items[found - weights->items];
}

/* Llama's head that is tied becomes the embedding, turned. */
TEST(a_head_that_is_missing_is_the_embedding) {
    struct ls_weights weights = draw_weights(1);
    assert_ok(ls_huggingface_write("drawn", &weights));
    remove_weight(&weights, "lm_head.weight");
    assert_ok(ls_huggingface_read("drawn", &weights));
    const struct ls_weight *table = find_weight(&weights, "token_embedding/embeddings");
    const struct ls_weight *head = find_weight(&weights, "predictions/kernel");
    int64_t ids = table->shape.dims[0], width = table->shape.dims[1];
    ck_assert(ls_shape_equal(&head->shape, &LS_SHAPE(width, ids)));
    for (int64_t i = 0; i < ids; i++)
        for (int64_t j = 0; j < width; j++)
            ck_assert_mem_eq(table->values + (i * width + j) * 4, head->values + (j * ids + i) * 4, 4);
    ls_weights_free(&weights);
}

TEST(other_files_stay_as_they_are) {
    struct drawing drawing = {.seed = 3};
    add(&drawing, LS_SHAPE(2, 3), -1, "dense/kernel");
    assert_ok(ls_huggingface_read("drawn", &drawing.weights));
    ck_assert_str_eq(drawing.weights.items[0].name, "dense/kernel");
    assert_refused(
        ls_huggingface_write("drawn", &drawing.weights),
        "'drawn' is of no gpt, gpt2 or llama, whose names Hugging Face has: its first variable is 'dense/kernel'");
    ls_weights_free(&drawing.weights);
}

TEST(what_is_wrong_is_named) {
    struct ls_weights weights = draw_weights(1);
    assert_ok(ls_huggingface_write("drawn", &weights));
    remove_weight(&weights, "model.layers.0.self_attn.k_proj.weight");
    assert_refused(ls_huggingface_read("drawn", &weights),
                   "'drawn' has tensor 'model.layers.0.self_attn.q_proj.weight', and none of the others beside it");
    ls_weights_free(&weights);
    weights = draw_weights(1);
    assert_ok(ls_huggingface_write("drawn", &weights));
    find_weight(&weights, "model.layers.0.mlp.up_proj.weight")->shape.rank = 1;
    assert_refused(ls_huggingface_read("drawn", &weights), "tensor 'model.layers.0.mlp.up_proj.weight' is (");
    ls_weights_free(&weights);
    weights = draw_weights(1);
    find_weight(&weights, "block_0_qkv/kernel")->shape.dims[1]--;
    assert_refused(ls_huggingface_write("drawn", &weights), "variable 'block_0_qkv/kernel' is (");
    ls_weights_free(&weights);
    weights = draw_weights(2);
    (void)snprintf(find_weight(&weights, "final_norm/beta")->name, 9, "final_no");
    assert_ok(ls_weights_sort("drawn", &weights));
    assert_refused(ls_huggingface_write("drawn", &weights),
                   "variable 'final_no' has no name at Hugging Face in a model like this");
    ls_weights_free(&weights);
}

TESTS("names of Hugging Face")
