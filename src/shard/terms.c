/* Terms are words of 8 bytes: a head, buckets, variables, tables. Floats go as their bits. */
#include "shard/terms.h"

#include <float.h>
#include <string.h>

#include "base/float_bits.h"
#include "base/new.h"

#define LAYOUT   INT64_C(0x4C5354524D03) /* the last byte is the version */
#define MOST     (INT64_C(1) << 40)      /* elements */
#define MOST_OF  (INT64_C(1) << 24)      /* buckets, variables */
#define MOST_IDS (INT64_C(1) << 31)
#define TABLES   4096
#define REPLICAS 1024

enum {
    HEAD_LAYOUT,
    HEAD_MODEL,
    HEAD_COUNT,
    HEAD_KIND,
    HEAD_MOMENTS,
    HEAD_REPLICAS,
    HEAD_BUCKETS,
    HEAD_PARTS,
    HEAD_ASYNCHRONOUS,
    HEAD_TABLES,
    HEAD
};
enum { BUCKET_WORDS = 2, PART_WORDS = 6, TABLE_WORDS = 8 };

static int64_t word_of(float value) {
    return (int64_t)ls_float_bits_of(value);
}

static float float_of(int64_t word) {
    return ls_float_bits_value((uint32_t)(uint64_t)word);
}

/* ---- terms ---- */

size_t ls_terms_table_floats(const struct ls_terms_model *terms) {
    size_t sum = 0;
    for (size_t t = 0; t < terms->table_count; t++)
        sum += (size_t)terms->tables[t].rows * (size_t)terms->tables[t].width * (1 + (size_t)terms->moments);
    return sum;
}

static ls_status make_lists(struct ls_terms_model *terms) {
    terms->buckets = ls_alloc_array(terms->bucket_count + 1, sizeof(*terms->buckets));
    terms->parts = ls_alloc_array(terms->part_count + 1, sizeof(*terms->parts));
    terms->tables = ls_alloc_array(terms->table_count + 1, sizeof(*terms->tables));
    if (terms->buckets && terms->parts && terms->tables) return LS_OK;
    ls_terms_free(terms);
    return ls_fail_memory("the division of a model over parameter servers",
                          terms->bucket_count * sizeof(*terms->buckets) + terms->part_count * sizeof(*terms->parts));
}

ls_status ls_terms_copy(const struct ls_terms_model *terms, struct ls_terms_model *copy) {
    *copy = *terms;
    ls_status status = make_lists(copy);
    if (status) return status;
    memcpy(copy->buckets, terms->buckets, terms->bucket_count * sizeof(*terms->buckets));
    memcpy(copy->parts, terms->parts, terms->part_count * sizeof(*terms->parts));
    if (terms->table_count) memcpy(copy->tables, terms->tables, terms->table_count * sizeof(*terms->tables));
    return LS_OK;
}

void ls_terms_free(struct ls_terms_model *terms) {
    ls_free(ls_steal(terms->buckets));
    ls_free(ls_steal(terms->parts));
    ls_free(ls_steal(terms->tables));
}

static void write_table(const struct ls_terms_table *table, int64_t words[TABLE_WORDS]) {
    const int64_t own[TABLE_WORDS] = {table->rows,
                                      table->width,
                                      (int64_t)table->fill.kind,
                                      (int64_t)ls_float_bits_of_double(table->fill.reach),
                                      (int64_t)table->fill.seed,
                                      (int64_t)table->fill.stream,
                                      table->decays,
                                      word_of(table->rate)};
    memcpy(words, own, sizeof(own));
}

ls_status ls_terms_encode(const struct ls_terms_model *terms, int64_t **words, size_t *count) {
    size_t size =
        HEAD + BUCKET_WORDS * terms->bucket_count + PART_WORDS * terms->part_count + TABLE_WORDS * terms->table_count;
    int64_t *made = ls_alloc_array(size, sizeof(*made)), *at = made;
    if (!made) return ls_fail_memory("the division of a model over parameter servers", size * sizeof(*made));
    const int64_t head[HEAD] = {LAYOUT,
                                terms->model,
                                (int64_t)terms->count,
                                terms->kind,
                                terms->moments,
                                terms->replicas,
                                (int64_t)terms->bucket_count,
                                (int64_t)terms->part_count,
                                terms->asynchronous,
                                (int64_t)terms->table_count};
    memcpy(at, head, sizeof(head));
    at += HEAD;
    for (size_t i = 0; i < terms->bucket_count; i++) {
        *at++ = (int64_t)terms->buckets[i].begin;
        *at++ = (int64_t)terms->buckets[i].end;
    }
    for (size_t i = 0; i < terms->part_count; i++) {
        const struct ls_blob_part *part = &terms->parts[i];
        *at++ = (int64_t)part->offset;
        *at++ = (int64_t)part->count;
        *at++ = part->decays;
        *at++ = word_of(part->l1);
        *at++ = word_of(part->l2);
        *at++ = word_of(part->rate);
    }
    for (size_t i = 0; i < terms->table_count; i++, at += TABLE_WORDS) write_table(&terms->tables[i], at);
    *words = made;
    *count = size;
    return LS_OK;
}

static ls_status refuse_number(const char *what, int64_t value) {
    return ls_fail(LS_DATA_LOSS, "rank 0 tells the parameter servers of a model whose %s, %lld, cannot be", what,
                   (long long)value);
}

static bool is_between(int64_t value, int64_t low, int64_t high) {
    return value >= low && value <= high;
}

static ls_status check_head(const int64_t *head, size_t count) {
    if (count < HEAD || head[HEAD_LAYOUT] != LAYOUT)
        return ls_fail(LS_DATA_LOSS, "rank 0 tells the parameter servers of a model in %zu words that are none", count);
    int64_t least = head[HEAD_COUNT] > 0; /* servers may keep tables alone */
    if (!is_between(head[HEAD_COUNT], head[HEAD_TABLES] == 0, MOST))
        return refuse_number("number of elements", head[HEAD_COUNT]);
    if (!is_between(head[HEAD_KIND], LS_OP_SGD, LS_OP_LAMB)) return refuse_number("optimizer", head[HEAD_KIND]);
    if (!is_between(head[HEAD_MOMENTS], 0, LS_MAX_MOMENTS))
        return refuse_number("number of moments", head[HEAD_MOMENTS]);
    if (!is_between(head[HEAD_REPLICAS], 1, REPLICAS)) return refuse_number("number of copies", head[HEAD_REPLICAS]);
    if (!is_between(head[HEAD_BUCKETS], least, MOST_OF)) return refuse_number("number of buckets", head[HEAD_BUCKETS]);
    if (!is_between(head[HEAD_PARTS], least, MOST_OF)) return refuse_number("number of variables", head[HEAD_PARTS]);
    if (!is_between(head[HEAD_ASYNCHRONOUS], 0, 1)) return refuse_number("consistency", head[HEAD_ASYNCHRONOUS]);
    if (!is_between(head[HEAD_TABLES], 0, TABLES)) return refuse_number("number of tables", head[HEAD_TABLES]);
    if (count != (size_t)(HEAD + BUCKET_WORDS * head[HEAD_BUCKETS] + PART_WORDS * head[HEAD_PARTS] +
                          TABLE_WORDS * head[HEAD_TABLES]))
        return refuse_number("number of words", (int64_t)count);
    return LS_OK;
}

/* Buckets come from the end of the blob. */
static ls_status read_buckets(const int64_t *at, struct ls_terms_model *terms) {
    int64_t before = (int64_t)terms->count;
    for (size_t i = 0; i < terms->bucket_count; i++, at += BUCKET_WORDS) {
        if (!is_between(at[1], 0, before)) return refuse_number("bucket's end", at[1]);
        if (!is_between(at[0], 0, at[1])) return refuse_number("bucket's begin", at[0]);
        terms->buckets[i] = (struct ls_range){(size_t)at[0], (size_t)at[1]};
        before = at[0];
    }
    return before ? refuse_number("first bucket's begin", before) : LS_OK;
}

static ls_status read_parts(const int64_t *at, struct ls_terms_model *terms) {
    int64_t before = 0, count = (int64_t)terms->count;
    for (size_t i = 0; i < terms->part_count; i++, at += PART_WORDS) {
        if (!is_between(at[0], before, count)) return refuse_number("variable's begin", at[0]);
        if (!is_between(at[1], 0, count - at[0])) return refuse_number("variable's size", at[1]);
        if (!is_between(at[2], 0, 1)) return refuse_number("variable's decay", at[2]);
        float rate = float_of(at[5]);
        if (!(rate >= 0 && rate <= FLT_MAX)) return refuse_number("variable's rate", at[5]);
        terms->parts[i] = (struct ls_blob_part){.offset = (size_t)at[0],
                                                .count = (size_t)at[1],
                                                .decays = at[2],
                                                .l1 = float_of(at[3]),
                                                .l2 = float_of(at[4]),
                                                .rate = rate};
        before = at[0] + at[1];
    }
    return LS_OK;
}

static ls_status read_tables(const int64_t *at, struct ls_terms_model *terms) {
    for (size_t i = 0; i < terms->table_count; i++, at += TABLE_WORDS) {
        if (!is_between(at[0], 1, MOST_IDS)) return refuse_number("table's number of rows", at[0]);
        if (!is_between(at[1], 1, MOST / at[0])) return refuse_number("table's width", at[1]);
        if (!is_between(at[2], 0, LS_FILL_KINDS - 1)) return refuse_number("table's first values", at[2]);
        if (!is_between(at[6], 0, 1)) return refuse_number("table's decay", at[6]);
        terms->tables[i] = (struct ls_terms_table){
            at[0],
            at[1],
            {(enum ls_fill_kind)at[2], ls_float_bits_double((uint64_t)at[3]), (uint64_t)at[4], (uint64_t)at[5]},
            at[6],
            float_of(at[7])};
    }
    return LS_OK;
}

ls_status ls_terms_decode(const int64_t *words, size_t count, struct ls_terms_model *terms) {
    ls_status status = check_head(words, count);
    if (status) return status;
    struct ls_terms_model made = {.model = words[HEAD_MODEL],
                                  .count = (size_t)words[HEAD_COUNT],
                                  .kind = (int32_t)words[HEAD_KIND],
                                  .moments = (int)words[HEAD_MOMENTS],
                                  .replicas = (int)words[HEAD_REPLICAS],
                                  .bucket_count = (size_t)words[HEAD_BUCKETS],
                                  .part_count = (size_t)words[HEAD_PARTS],
                                  .table_count = (size_t)words[HEAD_TABLES],
                                  .asynchronous = words[HEAD_ASYNCHRONOUS]};
    status = make_lists(&made);
    if (status) return status;
    status = read_buckets(words + HEAD, &made);
    words += HEAD + BUCKET_WORDS * made.bucket_count;
    if (!status) status = read_parts(words, &made);
    if (!status) status = read_tables(words + PART_WORDS * made.part_count, &made);
    return LS_HAND_OVER(status, terms, made, ls_terms_free(&made));
}

static uint64_t mix(uint64_t digest, uint64_t value) {
    digest = (digest ^ value) * UINT64_C(0x100000001B3);
    return digest ^ digest >> 32;
}

uint64_t ls_terms_digest(const struct ls_terms_model *terms) {
    uint64_t digest = mix(mix(UINT64_C(0xCBF29CE484222325), (uint64_t)terms->model), terms->count);
    digest = mix(mix(digest, (uint64_t)terms->kind), (uint64_t)terms->moments);
    for (size_t i = 0; i < terms->bucket_count; i++)
        digest = mix(mix(digest, terms->buckets[i].begin), terms->buckets[i].end);
    for (size_t i = 0; i < terms->part_count; i++)
        digest = mix(mix(digest, terms->parts[i].offset), terms->parts[i].count);
    for (size_t i = 0; i < terms->table_count; i++)
        digest = mix(mix(digest, (uint64_t)terms->tables[i].rows), (uint64_t)terms->tables[i].width);
    return digest >> 1; /* as a number that is not negative */
}

/* ---- a step ---- */

enum {
    STEP_MODEL,
    STEP_ITERATION,
    STEP_PASS,
    STEP_SKIPPED,
    STEP_FETCH,
    STEP_KEEP,
    STEP_KIND,
    STEP_NESTEROV,
    STEP_CENTERED,
    STEP_CORRECTION,
    STEP_TORCH_EPSILON,
    STEP_FLOATS
};

/* The floats of a step, in their order on the wire. */
static void list_floats(struct ls_optimizer_step *step, float *list[LS_STEP_WORDS - STEP_FLOATS]) {
    ls_optimizer *rule = &step->rule;
    float *const floats[LS_STEP_WORDS - STEP_FLOATS] = {&step->last_rate, &step->unscale,  &rule->learning_rate,
                                                        &rule->momentum,  &rule->beta_1,   &rule->beta_2,
                                                        &rule->epsilon,   &rule->rho,      &rule->weight_decay,
                                                        &rule->clipvalue, &rule->clipnorm, &rule->global_clipnorm};
    memcpy(list, floats, sizeof(floats));
}

void ls_terms_step_encode(const struct ls_terms_step *step, int64_t words[LS_STEP_WORDS]) {
    struct ls_optimizer_step copy = step->step;
    float *floats[LS_STEP_WORDS - STEP_FLOATS];
    const int64_t head[STEP_FLOATS] = {step->model,
                                       copy.iteration,
                                       copy.pass,
                                       copy.skipped,
                                       step->fetch,
                                       step->keep,
                                       (int64_t)copy.rule.kind,
                                       copy.rule.nesterov,
                                       copy.rule.centered,
                                       copy.rule.momentum_correction,
                                       copy.rule.torch_epsilon};
    list_floats(&copy, floats);
    memset(words, 0, LS_STEP_WORDS * sizeof(*words));
    memcpy(words, head, sizeof(head));
    for (size_t i = 0; i < LS_STEP_WORDS - STEP_FLOATS; i++)
        if (floats[i]) words[STEP_FLOATS + i] = word_of(*floats[i]);
}

ls_status ls_terms_step_decode(const int64_t words[LS_STEP_WORDS], struct ls_terms_step *step) {
    float *floats[LS_STEP_WORDS - STEP_FLOATS];
    bool flags = is_between(words[STEP_FETCH], 0, 1) && is_between(words[STEP_KEEP], 0, 1) &&
                 is_between(words[STEP_NESTEROV], 0, 1) && is_between(words[STEP_CENTERED], 0, 1) &&
                 is_between(words[STEP_CORRECTION], 0, 1) && is_between(words[STEP_TORCH_EPSILON], 0, 1);
    if (!flags || words[STEP_ITERATION] < 1 || !is_between(words[STEP_SKIPPED], 0, words[STEP_ITERATION] - 1) ||
        !is_between(words[STEP_KIND], LS_OPTIMIZER_SGD, LS_OPTIMIZER_LAMB))
        return ls_fail(LS_DATA_LOSS, "rank 0 tells the parameter servers of a step %lld that cannot be",
                       (long long)words[STEP_ITERATION]);
    *step = (struct ls_terms_step){
        .step = {.iteration = words[STEP_ITERATION], .pass = words[STEP_PASS], .skipped = words[STEP_SKIPPED]},
        .model = words[STEP_MODEL],
        .fetch = words[STEP_FETCH],
        .keep = words[STEP_KEEP]};
    step->step.rule.kind = (ls_optimizer_kind)words[STEP_KIND];
    step->step.rule.nesterov = words[STEP_NESTEROV];
    step->step.rule.centered = words[STEP_CENTERED];
    step->step.rule.momentum_correction = words[STEP_CORRECTION];
    step->step.rule.torch_epsilon = words[STEP_TORCH_EPSILON];
    list_floats(&step->step, floats);
    for (size_t i = 0; i < LS_STEP_WORDS - STEP_FLOATS; i++)
        if (floats[i]) *floats[i] = float_of(words[STEP_FLOATS + i]);
    return LS_OK;
}
