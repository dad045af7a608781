/* The division of random models over a random number of holders. */
#include "shard/layout.h"

#include "base/memory.h"
#include "device/norm.h"
#include "harness.h"
#include "property/draw.h"
#include "store/layout.h"

enum { CASES = 200, MOST_PARTS = 6, MOST_ELEMENTS = 9000, MOST_HOLDERS = 9 };

struct trial {
    struct draw draw;
    struct ls_terms_model terms;
    struct ls_range ranges[MOST_PARTS];
    struct ls_blob_part parts[MOST_PARTS];
    struct ls_layout layout;
};

static struct trial *draw_trial(struct trial *trial, uint64_t seed, uint64_t number) {
    *trial = (struct trial){.draw = draw_from(seed, number)};
    layout_draw(&trial->draw, MOST_PARTS, MOST_ELEMENTS, &trial->terms, trial->parts, trial->ranges);
    trial->terms.replicas = 1 + (int)draw_below(&trial->draw, MOST_HOLDERS);
    trial->layout = ls_layout_of(&trial->terms, 1 + (int)draw_below(&trial->draw, MOST_HOLDERS));
    return trial;
}

/* The holder that owns an element of a bucket; exactly one does. */
static int owner_of(const struct ls_layout *layout, size_t bucket, size_t element) {
    int owner = -1;
    for (int h = 0; h < layout->holders; h++) {
        struct ls_range range = ls_layout_range(layout, bucket, h);
        if (element < range.begin || element >= range.end) continue;
        ck_assert_int_eq(owner, -1);
        owner = h;
    }
    ck_assert_int_ge(owner, 0);
    return owner;
}

/* Ranges are all of a bucket and no element twice, cut at chunks; those of a large array are of one size. */
TEST(holders_divide_every_bucket) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct trial own, *trial = draw_trial(&own, seed, i);
        for (size_t b = 0; b < trial->terms.bucket_count; b++) {
            size_t elements = 0;
            for (int h = 0; h < trial->layout.holders; h++) {
                struct ls_range range = ls_layout_range(&trial->layout, b, h);
                ck_assert(range.begin == trial->ranges[b].begin || range.begin == trial->ranges[b].end ||
                          range.begin % LS_NORM_CHUNK == 0);
                ck_assert_uint_le(range.begin, range.end);
                elements += range.end - range.begin;
            }
            ck_assert_uint_eq(elements, trial->ranges[b].end - trial->ranges[b].begin);
            (void)owner_of(&trial->layout, b, trial->ranges[b].begin + draw_below(&trial->draw, elements));
        }
    }
    struct ls_range large = {0, 5000000};
    const struct ls_terms_model terms = {.count = large.end, .buckets = &large, .bucket_count = 1};
    for (int holders = 1; holders <= 16; holders++)
        for (int h = 0; h < holders; h++) {
            const struct ls_layout layout = ls_layout_of(&terms, holders);
            struct ls_range range = ls_layout_range(&layout, 0, h);
            ck_assert_double_le((double)(range.end - range.begin), 1.02 * (double)large.end / holders);
        }
}

/* With as many copies as holders all hold all. */
TEST(each_element_has_as_many_holders_as_copies) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct trial own, *trial = draw_trial(&own, seed, i);
        const struct ls_layout *layout = &trial->layout;
        int owner = (int)draw_below(&trial->draw, (size_t)layout->holders), held = 0;
        ck_assert_int_eq(layout->copies,
                         trial->terms.replicas < layout->holders ? trial->terms.replicas : layout->holders);
        for (int h = 0; h < layout->holders; h++)
            for (int c = 0; c < layout->copies; c++) held += ls_layout_before(layout, h, c) == owner;
        ck_assert_int_eq(held, layout->copies);
        ck_assert_int_eq(ls_layout_before(layout, owner, 0), owner);
    }
}

/* Pieces are all of the variables and no element twice; so are the chunks of their norms. */
TEST(pieces_are_all_of_the_variables) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct trial own, *trial = draw_trial(&own, seed, i);
        size_t counts[MOST_PARTS] = {0}, chunks = 0, whole = 0;
        for (int h = 0; h < trial->layout.holders; h++) {
            size_t count = ls_layout_pieces_of(&trial->layout, h, NULL);
            LS_CLEANUP(ls_free_pointer) struct ls_piece *pieces = ls_alloc_array(count + 1, sizeof(*pieces));
            ck_assert_uint_eq(ls_layout_pieces_of(&trial->layout, h, pieces), count);
            for (size_t p = 0; p < count; p++) counts[pieces[p].variable] += pieces[p].end - pieces[p].begin;
            chunks += ls_layout_chunks(&trial->layout, h);
        }
        for (size_t v = 0; v < trial->terms.part_count; v++) {
            ck_assert_uint_eq(counts[v], trial->parts[v].count);
            whole += ls_norm_chunks(trial->parts[v].offset, trial->parts[v].count);
        }
        ck_assert_uint_eq(chunks, whole);
    }
}

TEST(rows_are_divided_over_holders) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct trial own, *trial = draw_trial(&own, seed, i);
        int64_t rows = 1 + (int64_t)draw_below(&trial->draw, 40);
        size_t sum = 0;
        for (int h = 0; h < trial->layout.holders; h++) {
            size_t count = 0;
            for (int64_t row = 0; row < rows; row++) count += row % trial->layout.holders == h;
            ck_assert_uint_eq(ls_layout_rows(&trial->layout, rows, h), count);
            sum += count;
        }
        ck_assert_uint_eq(sum, (size_t)rows);
    }
}

TESTS("shard/layout")
