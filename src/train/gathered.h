/* The new variables of a step, on their way to the workers that do not hold them. A piece is the same part of every
 * worker's stripe; pieces lie one behind the other. There is one piece, in the place of gradients, if workers keep all
 * of these. Else the pieces that fit lie in memory of the plans, and the others in the place of gradients. */
#pragma once
#include "train/shards.h"

/* The elements that a worker gathers into memory of its plans, of so many bytes, and the range of gradients whose place
 * the others take: it begins with those that the worker keeps, as far as it can. */
struct ls_gathered_room {
    size_t fit;
    struct ls_range others;
};
struct ls_gathered_room ls_gathered_find(const ls_model *model, const struct ls_shards_of *of, size_t arena);
/* Brings the new variables of all owners. Collective. */
ls_status ls_gathered_take(const ls_model *model);
/* They become the first replica's, but for those that it holds. */
void ls_gathered_put(const ls_model *model);
