/* Random divisions that some holders have lost: each element of the new one comes once, from somebody who has it. */
#include "shard/moves.h"

#include "base/memory.h"
#include "harness.h"
#include "property/draw.h"

enum { CASES = 400, MOST_HOLDERS = 7, MOST_ELEMENTS = 30000 };

struct trial {
    struct draw draw;
    struct ls_range whole;
    struct ls_terms_model terms;
    struct ls_layout layout;
    struct ls_division_told told[MOST_HOLDERS * LS_DIVISIONS_KEPT];
};

/* Ranks of a generation before, of which some are here, each with another rank or with none; some have a second
 * division. */
static void draw_told(struct trial *trial) {
    struct draw *draw = &trial->draw;
    int before = 1 + (int)draw_below(draw, MOST_HOLDERS), copies = 1 + (int)draw_below(draw, (size_t)before);
    for (int r = 0; r < trial->layout.holders; r++) {
        struct ls_division_told *told = &trial->told[r * LS_DIVISIONS_KEPT];
        told[0] = told[1] = (struct ls_division_told){0};
        if (r < before && !draw_once_in(draw, 4)) told[0] = (struct ls_division_told){before, r, copies};
        if (draw_once_in(draw, 4)) told[1] = (struct ls_division_told){trial->layout.holders, r, trial->layout.copies};
    }
}

static struct trial *draw_trial(struct trial *trial, uint64_t seed, uint64_t number) {
    *trial = (struct trial){.draw = draw_from(seed, number)};
    trial->whole = (struct ls_range){0, draw_below(&trial->draw, MOST_ELEMENTS)};
    trial->terms = (struct ls_terms_model){.count = trial->whole.end, .buckets = &trial->whole, .bucket_count = 1};
    trial->terms.replicas = 1 + (int)draw_below(&trial->draw, MOST_HOLDERS);
    trial->layout = ls_layout_of(&trial->terms, 1 + (int)draw_below(&trial->draw, MOST_HOLDERS));
    draw_told(trial);
    return trial;
}

static bool has(const struct trial *trial, const struct ls_division_told *told, size_t element) {
    const struct ls_layout layout = {&trial->terms, (int)told->holders, (int)told->copies};
    bool found = false;
    for (int c = 0; c < told->copies; c++) {
        struct ls_range range = ls_layout_range(&layout, 0, ls_layout_before(&layout, (int)told->holder, c));
        found = found || (element >= range.begin && element < range.end);
    }
    return found;
}

static bool anybody_has(const struct trial *trial, size_t element) {
    bool found = false;
    for (int i = 0; i < trial->layout.holders * LS_DIVISIONS_KEPT; i++)
        found = found || has(trial, &trial->told[i], element);
    return found;
}

/* Elements that a rank is to hold, by moves. */
static size_t count_received(const struct ls_moves *moves, int rank) {
    size_t count = 0;
    for (size_t i = 0; i < moves->count; i++)
        if (moves->list[i].to == rank) count += moves->list[i].range.end - moves->list[i].range.begin;
    return count;
}

static size_t count_wanted(const struct trial *trial, int rank) {
    size_t count = 0;
    for (int c = 0; c < trial->layout.copies; c++) {
        struct ls_range range = ls_layout_range(&trial->layout, 0, ls_layout_before(&trial->layout, rank, c));
        count += range.end - range.begin;
    }
    return count;
}

static void check_moves(struct trial *trial, const struct ls_moves *moves) {
    const struct ls_division_told next = {trial->layout.holders, 0, trial->layout.copies};
    for (size_t i = 0; i < moves->count; i++) {
        const struct ls_move *move = &moves->list[i];
        const struct ls_division_told *giver = &trial->told[move->from * LS_DIVISIONS_KEPT + move->kept];
        const struct ls_division_told receiver = {next.holders, move->to, next.copies};
        size_t size = move->range.end - move->range.begin;
        ck_assert_uint_gt(size, 0);
        size_t element = move->range.begin + draw_below(&trial->draw, size);
        ck_assert(has(trial, giver, move->range.begin) && has(trial, giver, move->range.end - 1));
        ck_assert(has(trial, giver, element) && has(trial, &receiver, element));
        const struct ls_division_told *own = &trial->told[move->to * LS_DIVISIONS_KEPT];
        bool has_own = has(trial, &own[0], move->range.begin) || has(trial, &own[1], move->range.begin);
        ck_assert_int_eq(move->from == move->to, has_own);
    }
    for (int r = 0; r < trial->layout.holders; r++) ck_assert_uint_eq(count_received(moves, r), count_wanted(trial, r));
}

TEST(each_element_comes_from_who_has_it) {
    uint64_t seed = first_seed();
    int lost = 0;
    for (uint64_t i = 0; i < CASES; i++) {
        struct trial own, *trial = draw_trial(&own, seed, i);
        struct ls_moves moves;
        assert_ok(ls_moves_find(&trial->layout, trial->told, &moves));
        lost += moves.lost;
        if (!moves.lost) check_moves(trial, &moves);
        if (moves.lost) ck_assert(!anybody_has(trial, moves.missing.begin));
        for (size_t e = 0; !moves.lost && e < trial->whole.end; e += 500) ck_assert(anybody_has(trial, e));
        ls_moves_free(&moves);
    }
    ck_assert_int_gt(lost, CASES / 20);
    ck_assert_int_lt(lost, CASES);
}

TESTS("shard/moves")
