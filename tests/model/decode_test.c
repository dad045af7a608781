/* Decoding: plans of a few positions, one after the other, give what a plan of all gives; on drawn networks of all that
 * decodes. And which layers do not. */
#include "model/layer_list.h"
#include "model/model_fixture.h"
#include "model/plan_decode.h"

enum { VOCABULARY = 11, MOST_CONTEXT = 40, MOST_ROWS = 3, MOST_LAYERS = 64 };

/* ---- networks ---- */

/* Numbers that a seed gives one after the other. */
struct draws {
    uint64_t seed, count;
};

static int draw(struct draws *draws, int below) {
    return (int)(ls_random_bits(draws->seed, 3, draws->count++) % (uint64_t)below);
}

static void add_norm(struct ls_layer_list *list, struct draws *draws) {
    static const ls_layer norms[] = {ls_layer_normalization(.epsilon = 1e-5F), ls_rms_normalization(.epsilon = 1e-5F),
                                     ls_rms_normalization(.no_scale = true), ls_batch_normalization()};
    int which = draw(draws, 1 + COUNT_OF(norms));
    if (which < (int)COUNT_OF(norms)) (void)ls_layer_list_add(list, norms[which], "norm_%zu", list->count);
}

static void add_dense(struct ls_layer_list *list, struct draws *draws, int units) {
    static const ls_activation activations[] = {LS_LINEAR, LS_RELU, LS_GELU, LS_SIGMOID};
    ls_layer layer = ls_dense(units, .per_position = true, .no_bias = draw(draws, 2));
    layer.activation = activations[draw(draws, COUNT_OF(activations))];
    (void)ls_layer_list_add(list, layer, "dense_%zu", list->count);
}

static void add_attention(struct ls_layer_list *list, struct draws *draws, int width) {
    const char *input = ls_layer_list_last(list);
    int kv_heads = 1 + draw(draws, 2), heads = kv_heads * (1 + draw(draws, 3)), head = 2 + 2 * draw(draws, 5);
    ls_layer layer = ls_attention(heads, .kv_heads = kv_heads, .rope = draw(draws, 2));
    if (layer.rope && draw(draws, 2)) layer.rope_theta = 500000;
    layer.window = draw(draws, 2) ? 1 + draw(draws, MOST_CONTEXT) : 0;
    add_norm(list, draws);
    (void)ls_layer_list_add(list, ls_dense((heads + 2 * kv_heads) * head, .per_position = true), "qkv_%zu",
                            list->count);
    (void)ls_layer_list_add(list, layer, "attention_%zu", list->count);
    add_dense(list, draws, width);
    if (draw(draws, 4)) (void)ls_layer_list_add(list, ls_dropout(0.2F), "dropout_%zu", list->count);
    (void)ls_layer_list_add(list, ls_add(input), "add_%zu", list->count);
}

/* Two dense layers; or one that gates another; or side by side with what came in. */
static void add_dense_part(struct ls_layer_list *list, struct draws *draws, int width) {
    const char *input = ls_layer_list_last(list), *gate;
    int kind = draw(draws, 3);
    add_norm(list, draws);
    add_dense(list, draws, 2 * width);
    gate = ls_layer_list_add(list, ls_activation(draw(draws, 2) ? LS_SILU : LS_SOFTMAX), "gate_%zu", list->count);
    if (kind == 1)
        (void)ls_layer_list_add(list, ls_dense(2 * width, .per_position = true, .input = input), "up_%zu", list->count);
    if (kind == 1) (void)ls_layer_list_add(list, ls_multiply(gate), "multiply_%zu", list->count);
    if (kind == 2) (void)ls_layer_list_add(list, ls_concatenate(input), "concatenate_%zu", list->count);
    add_dense(list, draws, width);
    (void)ls_layer_list_add(list, ls_rescaling(0.5F, .offset = 0.1F), "rescaling_%zu", list->count);
    (void)ls_layer_list_add(list, ls_add(input), "add_%zu", list->count);
}

static void draw_layers(struct ls_layer_list *list, struct draws *draws) {
    int width = 4 * (1 + draw(draws, 5)), blocks = 1 + draw(draws, 3);
    (void)ls_layer_list_add(list, ls_embedding(VOCABULARY, width), "table");
    if (draw(draws, 3)) (void)ls_layer_list_add(list, ls_position_embedding(), "places");
    for (int i = 0; i < blocks; i++) {
        add_attention(list, draws, width);
        if (draw(draws, 4)) add_dense_part(list, draws, width);
    }
    add_norm(list, draws);
    (void)ls_layer_list_add(list, draw(draws, 2) ? ls_tied_dense("table") : ls_dense(VOCABULARY, .per_position = true),
                            "predictions");
}

/* ---- plans ---- */

struct subject {
    struct ls_network *network;
    struct ls_device *device;
    int64_t rows, context;
    float *parameters, *kept, *whole, *pieces; /* whole, pieces (rows, context, VOCABULARY) */
    int32_t ids[MOST_ROWS * MOST_CONTEXT];
};

static void fill_variables(struct subject *s) {
    for (int v = 0; v < ls_network_variable_count(s->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(s->network, v);
        float scale = variable->shape.rank > 1 ? 1 / sqrtf((float)variable->shape.dims[0]) : 0.3F;
        bool variance = strstr(variable->name, "variance") != NULL;
        for (size_t i = 0; i < variable->count; i++) {
            float value = scale * (float)ls_random_normal(6, (uint64_t)v, i);
            s->parameters[variable->offset + i] = variance ? 0.5F + fabsf(value) : value;
        }
    }
}

static struct subject new_subject(const ls_layer *layers, size_t count, int64_t rows, int64_t context) {
    struct subject s = {.device = open_cpu(), .rows = rows, .context = context};
    assert_ok(ls_network_new(layers, count, &LS_SHAPE(context), &s.network));
    assert_ok(ls_network_take_integers(s.network, true));
    s.parameters = new_floats((int64_t)ls_network_blob_count(s.network));
    s.kept = new_floats(1 + rows * (int64_t)ls_plan_decode_floats(s.network));
    s.whole = new_floats(rows * context * VOCABULARY), s.pieces = new_floats(rows * context * VOCABULARY);
    fill_variables(&s);
    for (int64_t i = 0; i < rows * context; i++) s.ids[i] = (int32_t)(ls_random_bits(8, 1, (uint64_t)i) % VOCABULARY);
    return s;
}

static void free_subject(struct subject *s) {
    ls_free(s->parameters), ls_free(s->kept), ls_free(s->whole), ls_free(s->pieces);
    ls_network_free(s->network);
    ls_device_close(s->device);
}

static struct ls_plan_config config_of(const struct subject *s, const int32_t *ids) {
    return (struct ls_plan_config){.network = s->network,
                                   .device = s->device,
                                   .rows = s->rows,
                                   .objective.loss = LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                   .parameters = s->parameters,
                                   .features = ids};
}

static void run(const struct ls_plan_config *config, int64_t positions, float *outputs) {
    struct ls_plan *plan = NULL;
    assert_ok(ls_plan_new(config, &plan));
    assert_ok(ls_plan_run(plan, NULL, NULL));
    memcpy(outputs, ls_plan_outputs(plan), (size_t)(config->rows * positions * VOCABULARY) * sizeof(*outputs));
    ls_plan_free(plan);
}

static void run_piece(struct subject *s, int32_t at, int64_t count) {
    int32_t ids[MOST_ROWS * MOST_CONTEXT] = {0};
    const struct ls_decoding decoding = {count, &at, s->kept};
    struct ls_plan_config config = config_of(s, ids);
    float *outputs = new_floats(s->rows * count * VOCABULARY);
    config.decoding = &decoding;
    for (int64_t r = 0; r < s->rows; r++)
        memcpy(ids + r * count, s->ids + r * s->context + at, (size_t)count * sizeof(*ids));
    run(&config, count, outputs);
    for (int64_t r = 0; r < s->rows; r++)
        memcpy(s->pieces + (r * s->context + at) * VOCABULARY, outputs + r * count * VOCABULARY,
               (size_t)(count * VOCABULARY) * sizeof(*outputs));
    ls_free(outputs);
}

/* A prompt, and then few positions at a time. */
TEST_EACH(pieces_give_what_the_whole_gives, 60) {
    struct draws draws = {(uint64_t)_i, 0};
    struct ls_layer_list list;
    int64_t rows = 1 + draw(&draws, MOST_ROWS), context = 1 + draw(&draws, MOST_CONTEXT);
    int most = 1 + draw(&draws, 3);
    assert_ok(ls_layer_list_new(MOST_LAYERS, &list));
    draw_layers(&list, &draws);
    struct subject s = new_subject(list.layers, list.count, rows, context);
    const struct ls_plan_config whole = config_of(&s, s.ids);
    ck_assert_ptr_null(ls_plan_decode_obstacle(s.network));
    run(&whole, context, s.whole);
    for (int64_t at = 0, count; at < context; at += count) {
        count = 1 + draw(&draws, at ? most : 10);
        if (count > context - at) count = context - at;
        run_piece(&s, (int32_t)at, count);
    }
    assert_near("outputs", s.pieces, s.whole, rows * context * VOCABULARY, 1e-5 * rounding());
    free_subject(&s);
    ls_free(list.layers);
}

static void run_prompt(struct subject *s, size_t layers) {
    int32_t at = 0;
    struct ls_plan *plan = NULL;
    const struct ls_decoding decoding = {s->context, &at, s->kept, layers};
    struct ls_plan_config config = config_of(s, s->ids);
    config.decoding = &decoding;
    assert_ok(ls_plan_new(&config, &plan));
    assert_ok(ls_plan_run(plan, NULL, NULL));
    ck_assert(!layers == (ls_plan_outputs(plan) != NULL));
    ls_plan_free(plan);
}

/* The bits of one that has outputs, too. */
TEST_EACH(a_plan_without_outputs_keeps_the_same, 30) {
    struct draws draws = {100 + (uint64_t)_i, 0};
    struct ls_layer_list list;
    int64_t rows = 1 + draw(&draws, MOST_ROWS), context = 1 + draw(&draws, MOST_CONTEXT);
    assert_ok(ls_layer_list_new(MOST_LAYERS, &list));
    draw_layers(&list, &draws);
    struct subject s = new_subject(list.layers, list.count, rows, context);
    size_t size = (size_t)rows * ls_plan_decode_floats(s.network) * sizeof(float);
    float *kept = new_floats((int64_t)(size / sizeof(float)));
    run_prompt(&s, 0);
    memcpy(kept, s.kept, size);
    memset(s.kept, 0, size);
    run_prompt(&s, ls_plan_decode_layers(s.network));
    ck_assert_mem_eq(kept, s.kept, size);
    ls_free(kept);
    free_subject(&s);
    ls_free(list.layers);
}

/* A layer that needs all positions, behind ones that do not; NULL: all decode. */
static const struct {
    ls_layer layers[4];
    size_t count;
    const char *obstacle;
} obstacles[] = {
    {{ls_embedding(VOCABULARY, 4), ls_dense(VOCABULARY, .per_position = true)}, 2, NULL},
    {{ls_embedding(VOCABULARY, 4), ls_dense(VOCABULARY)}, 2, "dense"},
    {{ls_embedding(VOCABULARY, 4), ls_flatten(), ls_dense(VOCABULARY)}, 3, "flatten"},
    {{ls_embedding(VOCABULARY, 4), ls_lstm(4, .return_sequences = true), ls_dense(VOCABULARY)}, 3, "lstm"},
    {{ls_embedding(VOCABULARY, 4), ls_gru(4, .return_sequences = true), ls_dense(VOCABULARY)}, 3, "gru"},
    {{ls_embedding(VOCABULARY, 4), ls_conv1d(VOCABULARY, 1)}, 2, "conv1d"},
    {{ls_embedding(VOCABULARY, 4), ls_max_pooling1d(1), ls_dense(VOCABULARY)}, 3, "max_pooling1d"},
    {{ls_embedding(VOCABULARY, 4), ls_global_average_pooling1d(), ls_dense(VOCABULARY)}, 3, "global_average_pooling1d"},
    {{ls_embedding(VOCABULARY, 6), ls_attention(2), ls_dense(VOCABULARY, .per_position = true)}, 3, NULL},
    {{ls_embedding(VOCABULARY, 6), ls_attention(2, .no_causal_mask = true), ls_dense(3, .per_position = true)},
     3,
     "attention"},
    {{ls_embedding(VOCABULARY, 6, .sparse = true), ls_dense(3, .per_position = true)}, 2, "embedding"},
    {{ls_dense(4, .per_position = true)}, 1, "dense"}, /* over the positions */
};

TEST_EACH(what_needs_all_positions_is_found, COUNT_OF(obstacles)) {
    struct ls_network *network = NULL;
    assert_ok(ls_network_new(obstacles[_i].layers, obstacles[_i].count, &LS_SHAPE(5), &network));
    const struct ls_node *found = ls_plan_decode_obstacle(network);
    if (obstacles[_i].obstacle)
        ck_assert_str_eq(found->name, obstacles[_i].obstacle);
    else
        ck_assert_ptr_null(found);
    ls_network_free(network);
}

TEST(images_do_not_decode) {
    struct ls_network *network = NULL;
    assert_ok(ls_network_new(LS_LAYERS(ls_dense(4, .per_position = true)), &LS_SHAPE(5, 3), &network));
    ck_assert_ptr_nonnull(ls_plan_decode_obstacle(network));
    ls_network_free(network);
}

/* Keys and values of each position and head of keys; layers begin at multiples of 16 numbers. */
TEST(kept_memory_follows_from_the_heads) {
    struct ls_network *network = NULL;
    assert_ok(ls_network_new(LS_LAYERS(ls_embedding(VOCABULARY, 24), ls_attention(4, .kv_heads = 1),
                                       ls_dense(9, .per_position = true), ls_attention(1)),
                             &LS_SHAPE(7), &network));
    ck_assert_uint_eq(ls_plan_decode_floats(network), 64 + 48); /* 2 x 7 x 4, and 2 x 7 x 3, each rounded up */
    ls_network_free(network);
}

TEST(what_cannot_be_is_refused) {
    float kept[512];
    int32_t at = 0, labels[7] = {0};
    struct ls_loss_sums sums;
    struct ls_plan *plan = NULL;
    const struct ls_decoding good = {1, &at, kept};
    const struct ls_decoding bad[] = {{0, &at, kept}, {8, &at, kept}, {1, NULL, kept}, {1, &at, NULL}};
    static const char *const texts[] = {"positions 0 must be 1 to 7", "positions 8 must be 1 to 7",
                                        "a decoding needs at and kept", "a decoding needs at and kept"};
    struct subject s = new_subject(LS_LAYERS(ls_embedding(VOCABULARY, 6), ls_attention(2)), 1, 7);
    struct ls_plan_config config = config_of(&s, s.ids);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        config.decoding = &bad[i];
        assert_refused(ls_plan_new(&config, &plan), texts[i]);
    }
    config.decoding = &good, config.labels = labels, config.sums = &sums;
    assert_refused(ls_plan_new(&config, &plan), "a decoding takes ids, and has no training and no loss");
    free_subject(&s);
    s = new_subject(LS_LAYERS(ls_embedding(VOCABULARY, 6), ls_conv1d(4, 1, .name = "windows")), 1, 7);
    config = config_of(&s, s.ids);
    config.decoding = &good;
    assert_refused(ls_plan_new(&config, &plan), "layer 'windows' takes all positions at once");
    ck_assert_ptr_null(plan);
    free_subject(&s);
}

TESTS("model/decode", .seconds = 60)
