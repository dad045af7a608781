/* The fuzzer's seeds are terms of the present layout: what the encoders make of these models and this step. With
 * LOCKSTEP_RECORD_CORPUS=1 the files are written instead, after the layout has changed. */
#include "shard/terms.h"

#include "base/memory.h"
#include "harness.h"

enum { COUNT = 5000, MIDDLE = 1008 };

static struct ls_range buckets[] = {{MIDDLE, COUNT}, {0, MIDDLE}};
static struct ls_blob_part parts[] = {
    {.offset = 0, .count = 1000, .decays = true, .l2 = 0.1F, .rate = 1},
    {.offset = MIDDLE, .count = 17, .rate = 1},
    {.offset = MIDDLE + 32, .count = 3960, .l1 = 0.5F, .rate = 0.25F},
};
static struct ls_terms_table tables[] = {
    {1000, 4, {LS_FILL_UNIFORM, 0.05, 7, 99}, true, 1},
    {3, 1, {LS_FILL_CONSTANT, 0, 0, 0}, false, 2},
};

static struct ls_terms_model model_of(size_t table_count) {
    return (struct ls_terms_model){.model = 1,
                                   .count = COUNT,
                                   .kind = LS_OP_SGD,
                                   .moments = 2,
                                   .replicas = 2,
                                   .buckets = buckets,
                                   .bucket_count = 2,
                                   .parts = parts,
                                   .part_count = 3,
                                   .tables = tables,
                                   .table_count = table_count,
                                   .asynchronous = table_count == 0};
}

static void expect_seed(const char *name, const int64_t *words, size_t count) {
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/%s", TERMS_CORPUS, name);
    const char *records = getenv("LOCKSTEP_RECORD_CORPUS");
    FILE *file = fopen(path, records ? "w" : "r");
    ck_assert_msg(file != NULL, "%s", path);
    if (records) {
        ck_assert(fwrite(words, sizeof(*words), count, file) == count);
    } else {
        int64_t found[128];
        ck_assert_uint_eq(fread(found, sizeof(*found), COUNT_OF(found), file), count);
        ck_assert_msg(!memcmp(found, words, count * sizeof(*words)),
                      "'%s' has another layout: LOCKSTEP_RECORD_CORPUS=1 writes it anew", name);
    }
    ck_assert_int_eq(fclose(file), 0);
}

static void expect_model(const char *name, const struct ls_terms_model *terms, const char *error) {
    LS_CLEANUP(ls_free_pointer) int64_t *words = NULL;
    struct ls_terms_model again = {0};
    size_t count;
    assert_ok(ls_terms_encode(terms, &words, &count));
    expect_seed(name, words, count);
    if (error) {
        assert_fails(ls_terms_decode(words, count, &again), LS_DATA_LOSS, error);
        return;
    }
    assert_ok(ls_terms_decode(words, count, &again));
    ck_assert_uint_eq(ls_terms_digest(&again), ls_terms_digest(terms));
    ls_terms_free(&again);
}

TEST(seeds_are_models_of_this_layout) {
    struct ls_terms_model plain = model_of(0), with_tables = model_of(COUNT_OF(tables));
    expect_model("model", &plain, NULL);
    expect_model("tables", &with_tables, NULL);
    struct ls_range apart[] = {{MIDDLE, 4000}, {0, MIDDLE}};
    plain.buckets = apart;
    expect_model("gap", &plain, NULL);
    struct ls_range late[] = {{MIDDLE, COUNT}, {1, MIDDLE}};
    plain.buckets = late;
    expect_model("late", &plain, "first bucket's begin, 1");
}

TEST(a_seed_is_a_step_of_this_layout) {
    const struct ls_terms_step step = {
        .step = {.rule = {LS_OPTIMIZER_ADAM, 0.1F, .beta_1 = 0.9F, .torch_epsilon = true},
                 .iteration = 7,
                 .unscale = 1},
        .model = 1,
        .fetch = true};
    struct ls_terms_step again;
    int64_t words[LS_STEP_WORDS];
    ls_terms_step_encode(&step, words);
    expect_seed("step", words, LS_STEP_WORDS);
    assert_ok(ls_terms_step_decode(words, &again));
    ck_assert_int_eq(again.step.iteration, 7);
    ck_assert(again.step.rule.torch_epsilon && again.fetch && !again.keep);
}

TESTS("shard/terms")
