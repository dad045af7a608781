/* All workers make the same calls, whatever memory each has. */
#include "train/gathered.h"

#include <string.h>

#include "base/new.h"
#include "collective/collectives.h"
#include "collective/schedule/schedules.h"

enum { MOST_PIECES = 16 };
#define LEAST_PIECE ((size_t)256 << 10) /* bytes */

static size_t count_pieces(const struct ls_shards_of *of, size_t count) {
    size_t pieces = count * sizeof(float) / LEAST_PIECE;
    if (of->shard != LS_SHARDING_GRADIENTS || !pieces) return 1;
    return pieces < MOST_PIECES ? pieces : MOST_PIECES;
}

/* Of the stripe of a worker. */
static struct ls_range piece_of(const struct ls_layout *layout, int worker, size_t pieces, size_t piece) {
    struct ls_range stripe = ls_layout_range(layout, 0, worker);
    size_t count = stripe.end - stripe.begin;
    return (struct ls_range){stripe.begin + ls_block_start(count, (int)pieces, (int)piece),
                             stripe.begin + ls_block_start(count, (int)pieces, (int)piece + 1)};
}

/* Writes the elements of the piece that each worker gives; counts may be NULL. Returns their sum. */
static size_t count_piece(const struct ls_layout *layout, size_t pieces, size_t piece, size_t *counts) {
    size_t sum = 0;
    for (int i = 0; i < layout->holders; i++) {
        struct ls_range range = piece_of(layout, i, pieces, piece);
        if (counts) counts[i] = range.end - range.begin;
        sum += range.end - range.begin;
    }
    return sum;
}

static size_t count_fitting(const struct ls_layout *layout, size_t pieces, size_t room) {
    size_t fit = 0;
    for (size_t p = 0; p < pieces; p++) {
        size_t count = count_piece(layout, pieces, p, NULL);
        if (count > room - fit) break;
        fit += count;
    }
    return fit;
}

struct ls_gathered_room ls_gathered_find(const ls_model *model, const struct ls_shards_of *of, size_t arena) {
    struct ls_shards_division division;
    ls_shards_divide(model, of, &division);
    const struct ls_layout *layout = &division.layout;
    size_t pieces = count_pieces(of, division.whole.end), fit = 0;
    if (of->shard == LS_SHARDING_GRADIENTS) fit = count_fitting(layout, pieces, arena / sizeof(float));
    int lowest = of->worker < layout->copies ? 0 : of->worker - layout->copies + 1;
    size_t kept = ls_layout_range(layout, 0, lowest).begin, from = kept < fit ? kept : fit;
    return (struct ls_gathered_room){fit, {from, from + division.whole.end - fit}};
}

/* at: elements of the pieces before it. */
static float *place_of(const struct ls_shards *shards, size_t at) {
    size_t fit = shards->gathered.fit;
    return at < fit ? shards->gathered.lent + at : shards->gathered.others + (at - fit);
}

/* The division of this generation's workers into pieces. */
struct gathering {
    struct ls_shards_division division;
    size_t pieces;
};

static void begin(const ls_model *model, struct gathering *gathering) {
    const struct ls_shards_of here = ls_shards_here(model);
    ls_shards_divide(model, &here, &gathering->division);
    gathering->pieces = count_pieces(&here, gathering->division.whole.end);
}

/* at: elements of the pieces before this one; then of this one too. */
static ls_status take_piece(const ls_model *model, const struct gathering *gathering, size_t piece, size_t *at,
                            size_t *counts) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    size_t count = count_piece(&gathering->division.layout, gathering->pieces, piece, counts);
    struct ls_range own = piece_of(&gathering->division.layout, runtime->rank, gathering->pieces, piece);
    float *place = place_of(model->built.shards, *at), *to = place;
    for (int i = 0; i < runtime->rank; i++) to += counts[i];
    memcpy(to, model->built.replicas[0].parameters + own.begin, (own.end - own.begin) * sizeof(float));
    *at += count;
    return ls_group_all_gather(runtime->group, LS_ALL_GATHER("variables", to, place, counts, LS_FLOAT32));
}

ls_status ls_gathered_take(const ls_model *model) {
    LS_CLEANUP(ls_free_pointer)
    LS_NEW_ARRAY(size_t, counts, (size_t)model->strategy->runtime->size, "a gather of variables");
    struct gathering gathering;
    ls_status status = LS_OK;
    begin(model, &gathering);
    for (size_t p = 0, at = 0; p < gathering.pieces && !status; p++)
        status = take_piece(model, &gathering, p, &at, counts);
    return status;
}

static bool is_held(const struct ls_layout *layout, int worker, int owner) {
    for (int i = 0; i < layout->copies; i++)
        if (ls_layout_before(layout, worker, i) == owner) return true;
    return false;
}

void ls_gathered_put(const ls_model *model) {
    int rank = model->strategy->runtime->rank;
    float *variables = model->built.replicas[0].parameters;
    struct gathering gathering;
    begin(model, &gathering);
    const struct ls_layout *layout = &gathering.division.layout;
    for (size_t p = 0, at = 0; p < gathering.pieces; p++) {
        const float *from = place_of(model->built.shards, at);
        at += count_piece(layout, gathering.pieces, p, NULL);
        for (int i = 0; i < layout->holders; i++) {
            struct ls_range range = piece_of(layout, i, gathering.pieces, p);
            size_t count = range.end - range.begin;
            if (!is_held(layout, rank, i)) memcpy(variables + range.begin, from, count * sizeof(float));
            from += count;
        }
    }
}
