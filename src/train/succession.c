/* Each worker tells which divisions it has a part of, and what is lacking moves. A worker that has all keeps also its
 * part of before, until it knows that the others have all. */
#include "train/succession.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/point.h"
#include "collective/collectives.h"

/* The words of each worker. Moments that a program has set, or a checkpoint, take the place of those that workers have.
 */
enum { CHANGED_NOTHING, CHANGED_ALL, CHANGED_COPIED };
struct told {
    int64_t step, changed; /* steps that are in its variables */
    int64_t given;         /* of what has changed it has a copy; else all is zero */
    int64_t returns;       /* it can begin anew, from a checkpoint */
    struct ls_division_told divisions[LS_DIVISIONS_KEPT];
};
enum { TOLD_WORDS = sizeof(struct told) / sizeof(int64_t) };

struct succession {
    ls_model *model;
    struct ls_shards *shards;
    struct ls_group *group;
    struct ls_layout layout;
    int rank, size;
    struct told *told;                  /* [size] */
    struct ls_division_told *divisions; /* [size][LS_DIVISIONS_KEPT] */
    struct ls_moves moves;
    struct ls_holding *next; /* what the worker is to have; may be kept[0] */
};

static int moments_of(const struct succession *s) {
    return s->shards->terms.moments;
}

/* ---- what workers have ---- */

static bool has_version(const struct ls_holding *holding, int64_t step) {
    return holding && (holding->version[0] == step || holding->version[1] == step);
}

static int64_t what_changed(const ls_model *model) {
    const struct ls_shard_part *parts = model->built.state;
    if (parts->origin == LS_FROM_WORKER) return CHANGED_COPIED;
    return ls_parts_are_new(parts + 1, model->built.state_count - 1) ? CHANGED_ALL : CHANGED_NOTHING;
}

static struct told tell_own(const struct succession *s) {
    const ls_model *model = s->model;
    struct told own = {
        .step = model->progress.step.iteration, .changed = what_changed(model), .returns = model->progress.returns};
    own.given = own.step && moments_of(s) && model->built.state[1].copy;
    for (int i = 0; i < LS_DIVISIONS_KEPT; i++) {
        const struct ls_holding *kept = s->shards->kept[i];
        if (has_version(kept, own.step))
            own.divisions[i] = (struct ls_division_told){kept->servers, kept->server, kept->replicas};
    }
    return own;
}

static ls_status tell_all(struct succession *s) {
    const struct told own = tell_own(s);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, counts, (size_t)s->size, "what workers have");
    s->told = ls_alloc_array((size_t)s->size, sizeof(*s->told));
    s->divisions = ls_alloc_array((size_t)s->size, sizeof(own.divisions));
    if (!s->told || !s->divisions) return ls_fail_memory("what workers have", (size_t)s->size * sizeof(own));
    for (int i = 0; i < s->size; i++) counts[i] = TOLD_WORDS;
    ls_status status =
        ls_group_all_gather(s->group, LS_ALL_GATHER("moments that workers have", &own, s->told, counts, LS_INT64));
    for (int i = 0; !status && i < s->size; i++) {
        memcpy(s->divisions + (size_t)i * LS_DIVISIONS_KEPT, s->told[i].divisions, sizeof(own.divisions));
        if (s->told[i].step != own.step)
            status = ls_fail(LS_DATA_LOSS, "rank %d has made %lld steps, and rank %d has made %lld", s->rank,
                             (long long)own.step, i, (long long)s->told[i].step);
    }
    return status;
}

/* The first worker that has what takes the place of all moments; -1: they stay. */
static int find_root(const struct succession *s) {
    int root = -1;
    for (int i = 0; i < s->size; i++) {
        if (s->told[i].changed == CHANGED_NOTHING) return -1;
        if (root < 0 && s->told[i].changed == CHANGED_ALL) root = i;
    }
    return root;
}

/* ---- what has changed ---- */

/* A worker that came back since has no copy. */
static ls_status take_given(const struct succession *s, int root, int moment) {
    struct ls_shard_part *part = &s->model->built.state[moment];
    LS_CLEANUP(ls_free_pointer) float *values = NULL;
    bool copied = false;
    for (int i = 0; i < s->size; i++) copied = copied || s->told[i].changed == CHANGED_COPIED;
    float *at = part->copy;
    if (!at && !(at = values = ls_alloc_aligned(part->count * sizeof(*values))))
        return ls_fail_memory("moments on their way", part->count * sizeof(*values));
    ls_status status = LS_OK;
    if (copied) status = ls_group_broadcast(s->group, LS_BROADCAST("moments", at, part->count, LS_FLOAT32, root));
    if (!status) ls_holding_put(s->next, moment, s->shards->whole, at);
    return status;
}

static ls_status take_changed(struct succession *s, int root) {
    ls_status status = ls_holding_new_moments(&s->shards->terms, s->size, s->rank, &s->next);
    for (int m = 1; m <= moments_of(s) && !status && s->told[root].given; m++) status = take_given(s, root, m);
    return status;
}

/* ---- what moves ---- */

/* All find it together, and none goes before the others. */
static ls_status refuse_loss(const struct succession *s) {
    struct ls_runtime *runtime = s->model->strategy->runtime;
    bool returns = true;
    for (int i = 0; i < s->size; i++) returns = returns && s->told[i].returns;
    runtime->lost = !returns;
    runtime->anew = returns;
    ls_status status = ls_group_barrier(s->group, "moments are lost");
    if (status) return status;
    size_t missing = s->moves.missing.end - s->moves.missing.begin;
    long long step = s->model->progress.step.iteration;
    char advice[160] = "";
    int copies = s->layout.copies + 1;
    if (!returns)
        (void)snprintf(advice, sizeof(advice),
                       "; ls_strategy_options.shard_copies = %d (lockstep train --shard-copies %d) keeps them on one "
                       "worker more",
                       copies, copies);
    return ls_fail(LS_UNAVAILABLE,
                   "a worker was lost, and with it the only copy of %zu elements of the optimizer's moments after step "
                   "%lld: %s%s",
                   missing, step, ls_part_way_back(returns), advice);
}

static bool stays(const struct succession *s) {
    const struct ls_division_told *own = s->told[s->rank].divisions;
    bool same = own->holders == s->size && own->holder == s->rank && own->copies == s->layout.copies;
    for (size_t i = 0; i < s->moves.count; i++) {
        const struct ls_move *move = &s->moves.list[i];
        same = same && (move->to != s->rank || (move->from == s->rank && !move->kept));
    }
    return same;
}

static ls_status make_next(struct succession *s) {
    int64_t step = s->model->progress.step.iteration;
    for (int i = 0; i < LS_DIVISIONS_KEPT; i++)
        if (has_version(s->shards->kept[i], step)) (void)ls_holding_return(s->shards->kept[i], step);
    s->next = s->shards->kept[0];
    return stays(s) ? LS_OK : ls_holding_new_moments(&s->shards->terms, s->size, s->rank, &s->next);
}

/* The counts and arrays of an exchange. */
struct exchange {
    size_t *sends, *receives; /* [size] */
    float *sent, *received;
};

static void free_exchange(struct exchange *exchange) {
    ls_free(exchange->sends);
    ls_free(exchange->sent);
}

static ls_status make_exchange(const struct succession *s, struct exchange *exchange) {
    size_t size = (size_t)s->size, sent = 0, received = 0;
    exchange->sends = ls_alloc_array(2 * size, sizeof(*exchange->sends));
    if (!exchange->sends) return ls_fail_memory("moments on their way", 2 * size * sizeof(*exchange->sends));
    exchange->receives = exchange->sends + size;
    for (size_t i = 0; i < s->moves.count; i++) {
        const struct ls_move *move = &s->moves.list[i];
        size_t count = move->from == move->to ? 0 : move->range.end - move->range.begin;
        if (move->from == s->rank) exchange->sends[move->to] += count;
        if (move->to == s->rank) exchange->receives[move->from] += count;
    }
    for (size_t i = 0; i < size; i++) {
        sent += exchange->sends[i];
        received += exchange->receives[i];
    }
    exchange->sent = ls_alloc_array(sent + received + 1, sizeof(float));
    exchange->received = exchange->sent + sent;
    return exchange->sent ? LS_OK : ls_fail_memory("moments on their way", (sent + received) * sizeof(float));
}

static const float *own_values(const struct succession *s, const struct ls_move *move, int moment) {
    return ls_holding_find(s->shards->kept[move->kept], moment, move->range);
}

static void pack(const struct succession *s, const struct exchange *exchange, int moment) {
    float *at = exchange->sent;
    for (size_t i = 0; i < s->moves.count; i++) {
        const struct ls_move *move = &s->moves.list[i];
        size_t count = move->range.end - move->range.begin;
        if (move->from != s->rank || move->to == s->rank) continue;
        memcpy(at, own_values(s, move, moment), count * sizeof(float));
        at += count;
    }
}

static void unpack(const struct succession *s, const struct exchange *exchange, int moment) {
    const float *at = exchange->received;
    bool same = s->next == s->shards->kept[0];
    for (int from = 0; from < s->size; from++)
        for (size_t i = 0; i < s->moves.count; i++) {
            const struct ls_move *move = &s->moves.list[i];
            bool own = from == s->rank;
            if (move->to != s->rank || move->from != from || (own && same)) continue;
            ls_holding_put(s->next, moment, move->range, own ? own_values(s, move, moment) : at);
            if (!own) at += move->range.end - move->range.begin;
        }
}

static ls_status move_all(const struct succession *s) {
    LS_CLEANUP(free_exchange) struct exchange exchange = {0};
    bool any = false;
    for (size_t i = 0; i < s->moves.count; i++) any = any || s->moves.list[i].from != s->moves.list[i].to;
    ls_status status = make_exchange(s, &exchange);
    for (int m = 1; m <= moments_of(s) && !status; m++) {
        pack(s, &exchange, m);
        const struct ls_all_to_all call = {.name = "moments to their owners",
                                           .dtype = LS_FLOAT32,
                                           .input = exchange.sent,
                                           .send_counts = exchange.sends,
                                           .output = exchange.received,
                                           .receive_counts = exchange.receives};
        if (any) status = ls_group_all_to_all(s->group, &call);
        if (!status) unpack(s, &exchange, m);
    }
    return status;
}

static ls_status take_moves(struct succession *s) {
    ls_status status = ls_moves_find(&s->layout, s->divisions, &s->moves);
    if (!status && s->moves.lost && moments_of(s)) return refuse_loss(s);
    if (!status) status = make_next(s);
    return status ? status : move_all(s);
}

/* ---- the whole ---- */

/* all: every worker has what it is to have. */
static void keep_next(struct succession *s, bool all) {
    struct ls_holding **kept = s->shards->kept;
    s->next->version[0] = s->model->progress.step.iteration;
    if (!all) {
        if (s->next == kept[0]) return;
        ls_holding_free(kept[1]);
        kept[1] = s->next;
        return;
    }
    for (int i = 0; i < LS_DIVISIONS_KEPT; i++)
        if (kept[i] != s->next) ls_holding_free(kept[i]);
    kept[0] = s->next;
    kept[1] = NULL;
    ls_holding_forget(kept[0]);
}

static void tell_part(const struct succession *s) {
    const struct ls_runtime *runtime = s->model->strategy->runtime;
    int64_t step = s->model->progress.step.iteration;
    if (!step || !moments_of(s)) return;
    ls_log_shared(&runtime->log, ls_runtime_speaks(runtime), LS_LOG_INFO,
                  "has its part of the moments of model %lld after step %lld, %d cop%s of each: %.1f MB",
                  (long long)s->shards->terms.model, (long long)step, s->layout.copies,
                  s->layout.copies == 1 ? "y" : "ies",
                  (double)moments_of(s) * (double)s->next->count * sizeof(float) / 1e6);
}

static ls_status run_succession(struct succession *s) {
    ls_status status = tell_all(s);
    bool begins = !s->model->progress.step.iteration; /* before the first step all moments are zero */
    int root = status ? -1 : begins ? s->rank : find_root(s);
    if (!status) status = root >= 0 ? take_changed(s, root) : take_moves(s);
    ls_reached("handover");
    if (status) {
        if (s->next != s->shards->kept[0]) ls_holding_free(s->next);
        return status;
    }
    status = ls_group_barrier(s->group, "all workers have their moments");
    if (!status && s->next != s->shards->kept[0]) tell_part(s);
    keep_next(s, !status);
    ls_reached("handed_over");
    return status;
}

ls_status ls_succession_run(ls_model *model) {
    const struct ls_runtime *runtime = model->strategy->runtime;
    struct ls_shards *shards = model->built.shards;
    struct succession succession = {.model = model,
                                    .shards = shards,
                                    .group = runtime->group,
                                    .layout = ls_layout_of(&shards->terms, runtime->size),
                                    .rank = runtime->rank,
                                    .size = runtime->size};
    ls_status status = run_succession(&succession);
    ls_moves_free(&succession.moves);
    ls_free(succession.divisions);
    ls_free(succession.told);
    return status;
}
