/* The moves of elements when holders are others than before, or have lost something: giver, range, receiver. Every rank
 * finds the same from what all have told. */
#pragma once
#include "shard/layout.h"

/* A division that a rank has a part of. */
struct ls_division_told {
    int64_t holders; /* 0: it has none */
    int64_t holder, copies;
};
enum { LS_DIVISIONS_KEPT = 2 }; /* by a rank */
struct ls_move {
    int from, to; /* ranks */
    int kept;     /* the number of the giver's division */
    struct ls_range range;
};
struct ls_moves {
    struct ls_move *list; /* [count] by receivers */
    size_t count, room;
    bool lost; /* nobody has some elements */
    struct ls_range missing;
};
/* The layout is of one bucket. told: [holders][LS_DIVISIONS_KEPT], of ranks that are to be holders. A range that its
 * receiver has already is among the moves: from is to. Freed with ls_moves_free. */
ls_status ls_moves_find(const struct ls_layout *layout, const struct ls_division_told *told, struct ls_moves *moves);
void ls_moves_free(struct ls_moves *moves);
