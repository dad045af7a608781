/* Halving-doubling in the order of the tree. The workers form teams as the tree splits their number: 7 are 4 + 2 + 1. A
 * team of 2^levels workers starts at rank start; index is a worker's place in its team.
 *  - Halving: at level 1 ... levels a worker and its partner, index ^ 2^(level - 1), exchange halves of the span that
 *    they still hold. Every sum is a node of the tree. kept[level] is the span that remains, slots[level] the partner's
 *    sum of it.
 *  - Handing over: the last team sends its sums to the team before it, and so on to the first team, where the tree
 *    ends.
 *  - Doubling: the results go the same ways back.
 * A team hands over while the larger team before it still halves. So every number of workers takes 2 * floor(log2)
 * steps, and no worker sends or receives more than twice the vector.
 *
 * A worker folds the half for its partner when it sends it, from its own leaves and all sums received for it: one pass
 * over the sources. These sums lie in the result until the result itself comes. It can come only for bytes that have
 * left, so the call is safe in place. Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
 * operations in MPICH", have halving and doubling for powers of two. The teams are the binary blocks of Rabenseifner
 * and Traeff 2004, "More efficient reduction algorithms for non-power-of-two number of processors". MPICH halves with
 * the farthest partner first. Here the nearest comes first, since only neighbours make a node of the tree; a worker's
 * span then lies at the bit-reversed place of its index. */
#include "collective/schedule/schedules.h"

#include "collective/schedule/reduction.h"

enum { MAX_LEVELS = 31 };

struct team {
    int start, levels; /* ranks [start, start + 2^levels) */
};
/* A part of the result; it is complete as far as the cursor of action. */
struct segment {
    struct ls_stripe span;
    int action;
};
struct halving {
    struct ls_schedule *schedule;
    const struct ls_reduction *reduction;
    struct team team, before, after;       /* start is -1 if there is none */
    int index;                             /* of this rank in its team */
    struct ls_stripe kept[MAX_LEVELS + 1]; /* the span held after each level; kept[0] is the whole vector */
    /* The sum that the partner of each level sent for kept[level]. slots[0] is the sum that the team after this one
     * handed over, for kept[levels]. NULL if there is none. */
    unsigned char *slots[MAX_LEVELS + 1];
    int received[MAX_LEVELS + 1];
    struct segment *segments; /* of the result that are here, by address: [first, last) */
    int first, last;
};

/* ---- who and what ---- */

static struct team team_from(int size, int start) {
    return (struct team){start, 31 - __builtin_clz((unsigned)(size - start))};
}

static int team_end(struct team team) {
    return team.start + (1 << team.levels);
}

static void find_teams(struct halving *halving) {
    int size = halving->reduction->size, rank = halving->reduction->rank;
    halving->before = halving->after = (struct team){-1, 0};
    halving->team = team_from(size, 0);
    while (team_end(halving->team) <= rank) {
        halving->before = halving->team;
        halving->team = team_from(size, team_end(halving->team));
    }
    if (team_end(halving->team) < size) halving->after = team_from(size, team_end(halving->team));
    halving->index = rank - halving->team.start;
}

static bool is_upper(int index, int level) {
    return index >> (level - 1) & 1;
}

/* The lower half is the longer one. */
static struct ls_stripe half_of(const struct halving *halving, struct ls_stripe span, bool upper) {
    size_t element = halving->reduction->element, lower = (span.size / element + 1) / 2 * element;
    return upper ? (struct ls_stripe){span.offset + lower, span.size - lower} : (struct ls_stripe){span.offset, lower};
}

/* The span that remains for the worker of that index after levels [from, to). */
static struct ls_stripe narrow_span(const struct halving *halving, struct ls_stripe span, int index, int from, int to) {
    for (int level = from + 1; level <= to; level++) span = half_of(halving, span, is_upper(index, level));
    return span;
}

static int partner(const struct halving *halving, int level) {
    return halving->team.start + (halving->index ^ 1 << (level - 1));
}

/* The leaves of the workers whose sum the partner of a level sends; at level 0 of all the teams after this one. The
 * partner's team up to that level is the sibling of the own one: the block of 2^(level - 1) workers whose number
 * differs in the last bit. */
static struct ls_subtree leaves_behind(const struct halving *halving, int level) {
    const struct ls_reduction *reduction = halving->reduction;
    int low = team_end(halving->team), high = reduction->size;
    if (level) {
        low = halving->team.start + ((halving->index >> (level - 1) ^ 1) << (level - 1));
        high = low + (1 << (level - 1));
    }
    return (struct ls_subtree){reduction->first[low], reduction->first[high]};
}

/* ---- actions ---- */

static void receive_sum(struct halving *halving, int level, int peer, size_t size) {
    halving->slots[level] = ls_schedule_take(halving->schedule, size);
    halving->received[level] = ls_schedule_receive(halving->schedule, peer, halving->slots[level], size);
}

static void add_own_sources(struct halving *halving, int fold, struct ls_stripe span) {
    const struct ls_reduction *reduction = halving->reduction;
    for (int leaf = reduction->first[reduction->rank]; leaf < reduction->first[reduction->rank + 1]; leaf++)
        ls_schedule_source(halving->schedule, fold, (struct ls_subtree){leaf, leaf + 1},
                           ls_reduction_leaf(reduction, leaf) + span.offset);
}

/* The place of span in the slot of a level; span is part of the slot's. */
static size_t place_in_slot(const struct halving *halving, int level, struct ls_stripe span) {
    int last = halving->team.levels;
    return span.offset - halving->kept[level ? level : last].offset;
}

static void add_slot_source(struct halving *halving, int fold, int level, struct ls_stripe span) {
    if (fold < 0) return;
    ls_schedule_source(halving->schedule, fold, leaves_behind(halving, level),
                       halving->slots[level] + place_in_slot(halving, level, span));
}

/* Makes the sum of a span over the leaves of this worker, of the partners up to a level, and, when whole, of the teams
 * after this one. Returns the address of the sum; made is the action that makes it, or -1 if it lies there already. The
 * sources go in leaf order. A partner of a level at which this worker is the upper one has lower leaves, and the lower
 * ones the higher the level. So the first loop goes down from level, the own leaves follow, and the second loop goes
 * up; the later teams (level 0) hold the highest leaves. A lone leaf without partners is sent from where it lies. */
static const unsigned char *sum(struct halving *halving, struct ls_stripe span, int level, bool whole, int *made) {
    const struct ls_reduction *reduction = halving->reduction;
    bool handed = whole && halving->after.start >= 0, root = whole && !halving->team.start;
    int own = reduction->first[reduction->rank];
    *made = -1;
    if (reduction->first[reduction->rank + 1] - own == 1 && !level && !handed && !root)
        return ls_reduction_leaf(reduction, own) + span.offset;
    unsigned char *to = ls_reduction_result(reduction) + span.offset;
    int fold = ls_schedule_add(halving->schedule, (struct ls_action){.kind = LS_ACTION_FOLD,
                                                                     .to = to,
                                                                     .size = span.size,
                                                                     .divide = root ? reduction->divide : 0});
    for (int i = handed ? 0 : 1; i <= level; i++)
        ls_schedule_gate_at(halving->schedule, fold, halving->received[i], place_in_slot(halving, i, span));
    for (int i = level; i >= 1; i--)
        if (is_upper(halving->index, i)) add_slot_source(halving, fold, i, span);
    add_own_sources(halving, fold, span);
    for (int i = 1; i <= level; i++)
        if (!is_upper(halving->index, i)) add_slot_source(halving, fold, i, span);
    if (handed) add_slot_source(halving, fold, 0, span);
    *made = fold;
    return to;
}

/* ---- towards the root ---- */

/* The rank of the team after this one from which sums come to this worker, and to which results go. */
static int rank_after(const struct halving *halving) {
    return halving->after.start + (halving->index & ((1 << halving->after.levels) - 1));
}

/* The rank of the team before that exchanges the at-th part, by address, of the span kept here; span receives the part.
 * The team before is larger by a power of two, so each of its workers kept a part of the span that is kept here. Those
 * workers agree with index in the low bits. The further bits of their index are the bits of at, the highest first, for
 * a higher level halves a smaller span: so rising at means rising addresses. */
static int rank_before(const struct halving *halving, int at, struct ls_stripe *span) {
    int levels = halving->before.levels - halving->team.levels, index = halving->index;
    for (int i = 0; i < levels; i++) index |= (at >> (levels - 1 - i) & 1) << (halving->team.levels + i);
    *span =
        narrow_span(halving, halving->kept[halving->team.levels], index, halving->team.levels, halving->before.levels);
    return halving->before.start + index;
}

static int count_before(const struct halving *halving) {
    return halving->before.start < 0 ? 0 : 1 << (halving->before.levels - halving->team.levels);
}

/* The spans shrink to 1/2, 1/4, ... of the vector, so all sends together are less than the vector. receive_sum comes
 * after the send in the list, but the peer's queue of receives is its own: both directions run at once. */
static void halve(struct halving *halving) {
    for (int level = 1; level <= halving->team.levels; level++) {
        bool upper = is_upper(halving->index, level);
        struct ls_stripe held = halving->kept[level - 1], given = half_of(halving, held, !upper);
        int made;
        const unsigned char *from = sum(halving, given, level - 1, false, &made);
        int sent = ls_schedule_send(halving->schedule, partner(halving, level), from, given.size);
        ls_schedule_gate(halving->schedule, sent, made);
        halving->kept[level] = half_of(halving, held, upper);
        receive_sum(halving, level, partner(halving, level), halving->kept[level].size);
    }
}

/* Joins the sums of the teams after this one and gives all to the team before; returns the action that makes the sum.
 */
static int hand_over(struct halving *halving) {
    struct ls_stripe kept = halving->kept[halving->team.levels], part;
    int made;
    if (halving->after.start >= 0) receive_sum(halving, 0, rank_after(halving), kept.size);
    const unsigned char *from = sum(halving, kept, halving->team.levels, true, &made);
    for (int i = 0; i < count_before(halving); i++) {
        int peer = rank_before(halving, i, &part);
        size_t offset = part.offset - kept.offset;
        int sent = ls_schedule_send(halving->schedule, peer, from + offset, part.size);
        ls_schedule_gate_at(halving->schedule, sent, made, offset);
    }
    return made;
}

/* ---- back ---- */

/* The results here are always one range of addresses: a partner of double_back brings the sibling of the span that is
 * held. So a new segment joins at one of the two ends, and segments needs room for one below each level. */
static void add_result(struct halving *halving, struct ls_stripe span, int action) {
    struct segment segment = {span, action};
    bool below = halving->first < halving->last && span.offset < halving->segments[halving->first].span.offset;
    halving->segments[below ? --halving->first : halving->last++] = segment;
    ls_reduction_spread(halving->schedule, halving->reduction, span.offset, span.size, action);
}

static void receive_span(struct halving *halving, int peer, struct ls_stripe span) {
    unsigned char *to = ls_reduction_result(halving->reduction) + span.offset;
    add_result(halving, span, ls_schedule_receive(halving->schedule, peer, to, span.size));
}

static void send_segments(struct halving *halving, int peer) {
    for (int i = halving->first; i < halving->last; i++) {
        struct segment segment = halving->segments[i];
        const unsigned char *from = ls_reduction_result(halving->reduction) + segment.span.offset;
        ls_schedule_gate(halving->schedule, ls_schedule_send(halving->schedule, peer, from, segment.span.size),
                         segment.action);
    }
}

static void double_back(struct halving *halving, int made) {
    struct ls_stripe part;
    if (!halving->team.start) add_result(halving, halving->kept[halving->team.levels], made);
    for (int i = 0; i < count_before(halving); i++) {
        int peer = rank_before(halving, i, &part);
        receive_span(halving, peer, part);
    }
    if (halving->after.start >= 0) send_segments(halving, rank_after(halving));
    for (int level = halving->team.levels; level >= 1; level--) {
        send_segments(halving, partner(halving, level));
        bool upper = is_upper(halving->index, level);
        receive_span(halving, partner(halving, level), half_of(halving, halving->kept[level - 1], !upper));
    }
}

/* ---- the whole ---- */

void ls_halving_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    struct halving halving = {.schedule = schedule, .reduction = reduction};
    find_teams(&halving);
    halving.kept[0] = (struct ls_stripe){0, reduction->count * reduction->element};
    halving.first = halving.last = halving.team.levels; /* at most one below for each level */
    size_t segments = 2 * (size_t)halving.team.levels + 1 + (size_t)count_before(&halving);
    halving.segments = ls_schedule_take(schedule, segments * sizeof(*halving.segments));
    if (!halving.segments) return;
    halve(&halving);
    double_back(&halving, hand_over(&halving));
}

/* True if the tree over the leaves of workers [low, high), cut at the workers, is the tree over these workers. With
 * replicas 2, 1, 1 of three workers the tree over 4 leaves cuts after leaf 2, the tree over 3 workers after worker 2,
 * which is after leaf 3: halving would add in another order, and is not offered. The left side recurses, the right side
 * loops. */
static bool is_tree_of_workers(const int *first, int low, int high) {
    while (high - low > 1) {
        int middle = low + ls_tree_split(high - low);
        if (first[middle] - first[low] != ls_tree_split(first[high] - first[low])) return false;
        if (!is_tree_of_workers(first, low, middle)) return false;
        low = middle;
    }
    return true;
}

bool ls_halving_fits(const struct ls_reduction *reduction) {
    int hosts = reduction->hosts ? reduction->hosts->count : reduction->size;
    return hosts == reduction->size && is_tree_of_workers(reduction->first, 0, reduction->size);
}
