/* The receiver's own part comes first, then an owner's, then a copy. */
#include "shard/moves.h"

#include "base/grow.h"

enum { HAS_COPY = 1, OWNS, IS_RECEIVER };

static bool is_sound(const struct ls_division_told *told) {
    return told->holders > 0 && told->holders <= INT32_MAX && told->holder >= 0 && told->holder < told->holders &&
           told->copies > 0 && told->copies <= told->holders;
}

/* The end of the range that a rank has from element at on; at: it has none. */
static size_t find_end(const struct ls_terms_model *terms, const struct ls_division_told *told, size_t at,
                       bool *owned) {
    const struct ls_layout layout = {terms, (int)told->holders, (int)told->copies};
    for (int c = 0; is_sound(told) && c < layout.copies; c++) {
        struct ls_range range = ls_layout_range(&layout, 0, ls_layout_before(&layout, (int)told->holder, c));
        if (at < range.begin || at >= range.end) continue;
        *owned = !c;
        return range.end;
    }
    return at;
}

/* Sets the giver of element at, and the end of what it has. */
static bool find_giver(const struct ls_layout *layout, const struct ls_division_told *told, struct ls_move *move) {
    int best = 0, at = (int)move->to;
    for (int i = 0; i < layout->holders && best < IS_RECEIVER; i++) {
        int rank = (at + i) % layout->holders;
        for (int kept = 0; kept < LS_DIVISIONS_KEPT; kept++) {
            bool owned = false;
            size_t end = find_end(layout->terms, &told[rank * LS_DIVISIONS_KEPT + kept], move->range.begin, &owned);
            int rate = rank == move->to ? IS_RECEIVER : owned ? OWNS : HAS_COPY;
            if (end == move->range.begin || rate <= best) continue;
            best = rate;
            move->from = rank;
            move->kept = kept;
            move->range.end = end;
        }
    }
    return best;
}

static ls_status append(struct ls_moves *moves, const struct ls_move *move) {
    ls_status status = LS_GROW(moves->list, moves->room, moves->count + 1, 16, "the moves of moments");
    if (!status) moves->list[moves->count++] = *move;
    return status;
}

/* One range that a rank is to hold. */
static ls_status fill_range(const struct ls_layout *layout, const struct ls_division_told *told, int to,
                            struct ls_range range, struct ls_moves *moves) {
    ls_status status = LS_OK;
    while (!status && range.begin < range.end && !moves->lost) {
        struct ls_move move = {.to = to, .range = range};
        moves->lost = !find_giver(layout, told, &move);
        if (moves->lost) moves->missing = range;
        if (move.range.end > range.end) move.range.end = range.end;
        if (!moves->lost) status = append(moves, &move);
        range.begin = move.range.end;
    }
    return status;
}

ls_status ls_moves_find(const struct ls_layout *layout, const struct ls_division_told *told, struct ls_moves *moves) {
    ls_status status = LS_OK;
    *moves = (struct ls_moves){0};
    for (int to = 0; to < layout->holders; to++)
        for (int c = 0; c < layout->copies && !status && !moves->lost; c++)
            status = fill_range(layout, told, to, ls_layout_range(layout, 0, ls_layout_before(layout, to, c)), moves);
    if (status) ls_moves_free(moves);
    return status;
}

void ls_moves_free(struct ls_moves *moves) {
    ls_free(moves->list);
    *moves = (struct ls_moves){0};
}
