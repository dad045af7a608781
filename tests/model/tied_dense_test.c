/* Tied dense: a network whose last product takes the embedding's table, beside one with a kernel of its own. */
#include "model/model_fixture.h"

enum { IDS = 9, WIDTH = 4, PLACES = 5, ROWS = 6 };

/* The head is the tied one, or one whose kernel is the transposed table. */
static struct replica replica_with(ls_layer head, bool frozen) {
    const ls_layer layers[] = {ls_embedding(IDS, WIDTH, .name = "words", .frozen = frozen),
                               ls_dense(WIDTH, LS_TANH, .per_position = true, .name = "middle"), head,
                               ls_global_average_pooling1d()};
    struct replica replica = new_replica(layers, COUNT_OF(layers), LS_SHAPE(PLACES), ROWS);
    for (int64_t i = 0; i < ROWS * PLACES; i++) replica.features[i] = (float)(ls_random_bits(5, 1, (uint64_t)i) % IDS);
    for (int i = 0; i < ROWS; i++) replica.labels[i] = (int32_t)(ls_random_bits(5, 2, (uint64_t)i) % IDS);
    return replica;
}

static const struct ls_network_variable *variable_of(const struct replica *replica, const char *name) {
    for (int v = 0; v < ls_network_variable_count(replica->network); v++)
        if (!strcmp(ls_network_variable(replica->network, v)->name, name))
            return ls_network_variable(replica->network, v);
    ck_abort_msg("no variable %s", name);
}

static float *values_of(const struct replica *replica, float *blob, const char *name) {
    return blob + variable_of(replica, name)->offset;
}

static void copy_variable(const struct replica *from, const struct replica *to, const char *name) {
    memcpy(values_of(to, to->parameters, name), values_of(from, from->parameters, name),
           variable_of(from, name)->count * sizeof(float));
}

/* The sum of both gradients, of the table and of the kernel. */
static void expect_sum(const struct replica *tied, const struct replica *apart) {
    float wanted[IDS * WIDTH];
    const float *table = values_of(apart, apart->gradients, "words/embeddings");
    const float *kernel = values_of(apart, apart->gradients, "head/kernel");
    for (int id = 0; id < IDS; id++)
        for (int c = 0; c < WIDTH; c++) wanted[id * WIDTH + c] = table[id * WIDTH + c] + kernel[c * IDS + id];
    assert_near("table", values_of(tied, tied->gradients, "words/embeddings"), wanted, IDS * WIDTH, 1e-5);
}

TEST_EACH(gradients_are_those_of_a_kernel_and_of_a_table, 2) {
    bool frozen = _i;
    struct replica tied = replica_with((ls_layer)ls_tied_dense("words", .name = "head"), frozen);
    struct replica apart =
        replica_with((ls_layer)ls_dense(IDS, .no_bias = true, .per_position = true, .name = "head"), frozen);
    ck_assert_int_eq(ls_network_variable_count(tied.network) + 1, ls_network_variable_count(apart.network));
    copy_variable(&tied, &apart, "words/embeddings");
    copy_variable(&tied, &apart, "middle/kernel");
    const float *table = values_of(&tied, tied.parameters, "words/embeddings");
    float *kernel = values_of(&apart, apart.parameters, "head/kernel");
    for (int i = 0; i < IDS * WIDTH; i++) kernel[i % WIDTH * IDS + i / WIDTH] = table[i];
    run_once(&tied, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    run_once(&apart, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ck_assert_double_le(fabs(tied.sums.loss - apart.sums.loss), 1e-5);
    assert_near("middle", values_of(&tied, tied.gradients, "middle/kernel"),
                values_of(&apart, apart.gradients, "middle/kernel"), WIDTH * WIDTH, 1e-5);
    if (!frozen) expect_sum(&tied, &apart);
    free_replica(&tied);
    free_replica(&apart);
}

TEST_EACH(what_cannot_be_tied_is_refused, 7) {
    static const struct {
        ls_layer layers[3];
        size_t count;
        const char *text;
    } rows[] = {
        {{ls_embedding(9, 4), ls_tied_dense(NULL)}, 2, "layer 1 (tied_dense): it names no embedding layer"},
        {{ls_embedding(9, 4), ls_tied_dense("words")}, 2, "layer 'tied_dense': tied 'words' is no embedding layer"},
        {{ls_embedding(9, 4), ls_dense(4), ls_tied_dense("dense")}, 3, "tied 'dense' is no embedding layer before it"},
        {{ls_embedding(9, 4), ls_dense(5, .per_position = true), ls_tied_dense("embedding")},
         3,
         "the last axis of its input has 5 elements, and the rows of 'embedding' 4"},
        {{ls_embedding(9, 4, .sparse = true), ls_tied_dense("embedding")}, 2, "the table of 'embedding' is sparse"},
        {{ls_embedding(4, 4), ls_tied_dense("embedding"), ls_tied_dense("embedding")},
         3,
         "another layer is tied to 'embedding' already"},
        {{ls_embedding(9, 4), ls_dense(4, .tied = "embedding")}, 2, "this kind of layer has no tied"},
    };
    const ls_shape input = LS_SHAPE(5);
    struct ls_network *network = NULL;
    assert_refused(ls_network_new(rows[_i].layers, rows[_i].count, &input, &network), rows[_i].text);
    ck_assert_ptr_null(network);
}

TEST(a_description_tells_the_table) {
    const ls_layer layers[] = {ls_embedding(9, 4), ls_tied_dense("embedding")};
    const ls_shape input = LS_SHAPE(5);
    struct ls_network *network = NULL;
    char *text = NULL;
    assert_ok(ls_network_new(layers, COUNT_OF(layers), &input, &network));
    assert_ok(ls_network_describe(network, &text));
    ck_assert_ptr_nonnull(strstr(text, "tied_dense tied_dense(linear) tied to embedding -> (5, 9)"));
    ls_free(text);
    ls_network_free(network);
}

TESTS("tied_dense")
