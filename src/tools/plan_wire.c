/* The bytes of each rank's link, by the schedules of the calls that a step makes, each task on a link of its own. The
 * time of a step has the floor of bench/RESULTS.md, "Overlap": the next forward pass waits for the last bucket. */
#include "tools/plan.h"

#include "base/new.h"
#include "collective/algorithm.h"
#include "collective/servers/assist.h"
#include "collective/group.h"
#include "collective/tuner.h"
#include "shard/layout.h"
#include "sync/meeting.h"
#include "train/training_state.h"

/* ---- one call ---- */

static double longest(const struct ls_tools_planning *planning, const struct ls_traffic *traffic) {
    double bytes = 0;
    for (int r = 0; r < planning->workers + planning->servers; r++) {
        if ((double)traffic[r].sent > bytes) bytes = (double)traffic[r].sent;
        if ((double)traffic[r].received > bytes) bytes = (double)traffic[r].received;
    }
    return bytes;
}

static void add_traffic(const struct ls_tools_planning *planning, const struct ls_traffic *from,
                        struct ls_traffic *to) {
    for (int r = 0; r < planning->workers + planning->servers; r++) {
        to[r].sent += from[r].sent;
        to[r].received += from[r].received;
    }
}

/* By ranks up to those of the reduction. */
static ls_status count_call(enum ls_algorithm algorithm, const struct ls_reduction *reduction,
                            struct ls_traffic *traffic) {
    struct ls_reduction own = *reduction;
    ls_status status = LS_OK;
    for (own.rank = 0; !status && own.rank < own.size; own.rank++)
        status = ls_traffic_add(algorithm, &own, &traffic[own.rank]);
    return status;
}

static size_t ranks_of(const struct ls_tools_planning *planning) {
    return (size_t)planning->workers + (size_t)planning->servers;
}

/* AUTO measures with servers and without. On paper the one whose busiest link has fewer bytes is the faster one. */
static ls_status count_with_servers(const struct ls_tools_planning *planning, struct ls_reduction *reduction,
                                    enum ls_algorithm *algorithm, struct ls_traffic *without) {
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_traffic, with, ranks_of(planning), "a plan");
    reduction->servers = planning->servers;
    reduction->size += planning->servers;
    if (!ls_assist_is_large(reduction->count, reduction->element, reduction->size)) return LS_OK;
    ls_status status = count_call(LS_ALGORITHM_ASSIST, reduction, with);
    if (status || longest(planning, with) >= longest(planning, without)) return status;
    *algorithm = LS_ALGORITHM_ASSIST;
    for (int r = 0; r < planning->workers + planning->servers; r++) without[r] = with[r];
    return LS_OK;
}

static ls_status count_all_reduce(struct ls_tools_planning *planning, size_t count, size_t element, bool compresses,
                                  struct ls_traffic *traffic) {
    const ls_strategy_options *options = &planning->strategy_options;
    const struct ls_settings *settings = &planning->strategy->runtime->settings;
    struct ls_reduction reduction = {.size = planning->workers,
                                     .element = element,
                                     .count = count,
                                     .first = planning->first,
                                     .compression = compresses ? options->compression : LS_COMPRESS_NONE};
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_traffic, own, ranks_of(planning), "a plan");
    if (!count || planning->workers == 1) return LS_OK;
    enum ls_algorithm algorithm = options->communication == LS_RING
                                      ? LS_ALGORITHM_RING
                                      : ls_tuner_over_links(&reduction, (int)settings->direct_limit);
    ls_status status = count_call(algorithm, &reduction, own);
    bool may = planning->servers && !planning->stores && algorithm != LS_ALGORITHM_RING;
    if (!status && may) status = count_with_servers(planning, &reduction, &algorithm, own);
    if (status) return status;
    add_traffic(planning, own, traffic);
    planning->algorithm = ls_algorithm_name((int)algorithm);
    return LS_OK;
}

/* ---- a step ---- */

/* As src/sync/sharded.c decides. */
static bool scatters(const struct ls_tools_planning *planning) {
    const ls_strategy_options *options = &planning->strategy_options;
    return planning->divides && options->shard_copies == 1 && planning->total == planning->workers &&
           options->communication == LS_AUTO && !options->compression;
}

/* Numbers behind the variables are never rounded, and go between workers. */
static ls_status count_bucket(struct ls_tools_planning *planning, const struct ls_bucket *bucket) {
    size_t trained = ls_network_trainable_count(planning->model->built.network);
    size_t cut = bucket->end < trained ? bucket->end : trained > bucket->begin ? trained : bucket->begin;
    bool whole = !planning->strategy_options.compression && !planning->stores && !scatters(planning);
    if (whole) return count_all_reduce(planning, bucket->end - bucket->begin, sizeof(float), false, planning->beside);
    ls_status status = count_all_reduce(planning, bucket->end - cut, sizeof(float), false, planning->beside);
    if (status || planning->stores || scatters(planning)) return status;
    return count_all_reduce(planning, cut - bucket->begin, sizeof(float), true, planning->beside);
}

static ls_status count_buckets(struct ls_tools_planning *planning) {
    const struct ls_model_bound *bound = &planning->model->bound;
    ls_status status = LS_OK;
    for (size_t b = bound->bucket_count; b-- > 0 && !status;) status = count_bucket(planning, &bound->buckets[b]);
    return status;
}

/* Of all that is trained, as workers own it: one after the other. */
static struct ls_range stripe_of(const struct ls_tools_planning *planning, int worker) {
    const struct ls_shards_of of = ls_plan_share_of(planning, worker);
    struct ls_shards_division division;
    ls_shards_divide(planning->model, &of, &division);
    return ls_layout_range(&division.layout, 0, worker);
}

/* Workers that do not hold all gather the new variables: each gives the others its stripe. Of a reduce-scatter it gets
 * the others' parts of that. */
static void count_gather(const struct ls_tools_planning *planning) {
    size_t all = ls_network_trainable_count(planning->model->built.network) * sizeof(float);
    bool gathers = planning->divides && planning->strategy_options.shard_copies < planning->workers;
    for (int w = 0; gathers && w < planning->workers; w++) {
        struct ls_range own = stripe_of(planning, w);
        size_t size = (own.end - own.begin) * sizeof(float);
        planning->rows[w].sent += size * (size_t)(planning->workers - 1);
        planning->rows[w].received += all - size;
        if (!scatters(planning)) continue;
        planning->beside[w].sent += all - size;
        planning->beside[w].received += size * (size_t)(planning->workers - 1);
    }
}

size_t ls_plan_wire_parts(const struct ls_tools_planning *planning, int worker) {
    const struct ls_model_bound *bound = &planning->model->bound;
    const struct ls_range own = stripe_of(planning, worker);
    size_t largest = 0;
    for (size_t b = 0; b < bound->bucket_count && scatters(planning); b++) {
        struct ls_range both =
            ls_layout_overlap(own, (struct ls_range){bound->buckets[b].begin, bound->buckets[b].end});
        if (both.end - both.begin > largest) largest = both.end - both.begin;
    }
    return (size_t)(planning->workers - 1) * largest * sizeof(float);
}

/* The new variables come when all gradients are there. */
static void count_pull(const struct ls_tools_planning *planning, const struct ls_stripe *owned) {
    for (int w = 0; w < planning->workers; w++)
        for (int s = 0; s < planning->servers; s++) {
            planning->behind[planning->workers + s].sent += owned[s].size;
            planning->behind[w].received += owned[s].size;
        }
}

static ls_status count_servers(struct ls_tools_planning *planning) {
    const struct ls_terms_model *terms = &planning->terms;
    int servers = planning->servers, copies = planning->copies < servers ? planning->copies : servers;
    const struct ls_layout layout = ls_layout_of(terms, servers);
    LS_CLEANUP(ls_free_pointer) struct ls_stripe *owned = ls_layout_stripes(&layout, true);
    ls_status status = owned ? LS_OK : ls_fail_memory("a plan", terms->bucket_count * sizeof(*owned));
    for (size_t b = 0; !status && b < terms->bucket_count; b++) {
        const struct ls_reduction push = {.size = planning->workers + servers,
                                          .servers = servers,
                                          .owned = owned + b * (size_t)servers,
                                          .copies = copies - 1,
                                          .element = sizeof(float),
                                          .count = terms->buckets[b].end - terms->buckets[b].begin,
                                          .compression = planning->strategy_options.compression,
                                          .first = planning->first};
        status = count_call(LS_ALGORITHM_COUNT, &push, planning->beside);
        count_pull(planning, push.owned);
    }
    return status;
}

/* Of so many bytes those of server s; all together they are all. */
static size_t server_share(size_t bytes, size_t s, size_t servers) {
    return bytes * (s + 1) / servers - bytes * s / servers;
}

/* The ids of a step cross once, rows one way and gradients the other; the owners of rows take turns. */
static void count_tables(const struct ls_tools_planning *planning) {
    const struct ls_terms_model *terms = &planning->terms;
    size_t servers = (size_t)planning->servers, copies = (size_t)planning->copies;
    if (copies > servers) copies = servers;
    for (int w = 0; w < planning->workers && terms->table_count; w++) {
        size_t rows = 0, ids = 0;
        for (size_t t = 0; t < terms->table_count; t++) {
            size_t touched = ls_plan_share_touched(planning, w, &terms->tables[t]);
            rows += touched * (size_t)terms->tables[t].width * sizeof(float);
            if (touched > ids) ids = touched;
        }
        size_t sent = copies * (ids * sizeof(int32_t) + rows);
        planning->rows[w] = (struct ls_traffic){.sent = sent, .received = rows};
        for (size_t s = 0; s < servers; s++) {
            planning->rows[(size_t)planning->workers + s].received += server_share(sent, s, servers);
            planning->rows[(size_t)planning->workers + s].sent += server_share(rows, s, servers);
        }
    }
}

/* ---- meetings ---- */

static ls_status count_part(struct ls_tools_planning *planning, size_t floats, struct ls_traffic *traffic) {
    ls_status status = LS_OK;
    for (int m = 0; !status && m < ls_meeting_moments(planning->model); m++)
        status = count_all_reduce(planning, floats, sizeof(float), false, traffic);
    return status ? status : count_all_reduce(planning, floats, sizeof(float), true, traffic);
}

static ls_status count_fragment(struct ls_tools_planning *planning, size_t floats) {
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_traffic, own, ranks_of(planning), "a plan");
    struct ls_traffic *largest = planning->strategy->local.fragment_delay ? planning->beside : planning->behind;
    ls_status status = count_all_reduce(planning, 2, sizeof(double), false, own);
    if (!status) status = count_part(planning, floats, own);
    if (status) return status;
    add_traffic(planning, own, planning->round);
    if (longest(planning, own) <= longest(planning, largest)) return LS_OK;
    for (int r = 0; r < planning->workers + planning->servers; r++) largest[r] = own[r];
    return LS_OK;
}

static ls_status count_fragments(struct ls_tools_planning *planning) {
    size_t count = (size_t)planning->strategy->local.fragments;
    if (!count) count = 1;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_bucket, ranges, count, "a plan");
    (void)ls_fragments_cut(planning->model, count, ranges);
    ls_status status = LS_OK;
    for (size_t f = 0; !status && f < count; f++) status = count_fragment(planning, ranges[f].end - ranges[f].begin);
    return status;
}

static ls_status count_meeting(struct ls_tools_planning *planning) {
    size_t trained = ls_network_trainable_count(planning->model->built.network);
    size_t statistics = planning->model->built.summed_count - trained;
    if (ls_fragments_are_wanted(planning->strategy)) return count_fragments(planning);
    ls_status status = count_all_reduce(planning, LS_FIT_NUMBERS, sizeof(double), false, planning->behind);
    if (!status) status = count_all_reduce(planning, statistics, sizeof(float), false, planning->behind);
    if (!status) status = count_part(planning, trained, planning->behind);
    add_traffic(planning, planning->behind, planning->round);
    return status;
}

ls_status ls_plan_wire_count(struct ls_tools_planning *planning) {
    LS_NEW_ARRAY(struct ls_traffic, all, 4 * ranks_of(planning), "a plan");
    planning->beside = all;
    planning->behind = all + ranks_of(planning);
    planning->rows = all + 2 * ranks_of(planning);
    planning->round = all + 3 * ranks_of(planning);
    if (planning->meets) return count_meeting(planning);
    ls_status status = planning->workers > 1 || planning->stores ? count_buckets(planning) : LS_OK;
    if (!status && planning->stores) status = count_servers(planning);
    count_tables(planning);
    count_gather(planning);
    add_traffic(planning, planning->rows, planning->round);
    add_traffic(planning, planning->beside, planning->round);
    add_traffic(planning, planning->behind, planning->round);
    return status;
}

/* ---- time ---- */

double ls_plan_wire_seconds(const struct ls_tools_planning *planning, const struct ls_traffic *traffic) {
    double bits = planning->options->bits;
    return bits > 0 ? 8 * longest(planning, traffic) / bits : 0;
}

double ls_plan_wire_step(const struct ls_tools_planning *planning) {
    double compute = planning->worker.compute, forward = compute / 3; /* a third of computing is forward */
    double beside = ls_plan_wire_seconds(planning, planning->beside);
    double behind = ls_plan_wire_seconds(planning, planning->behind);
    const ls_local_sgd_options *local = &planning->strategy->local;
    double backward = compute - forward;
    double rows = ls_plan_wire_seconds(planning, planning->rows);
    if (!planning->meets) return rows + (behind > forward ? behind : forward) + (beside > backward ? beside : backward);
    double waits = beside - local->fragment_delay * compute, every = local->sync_every;
    if (ls_fragments_are_wanted(planning->strategy)) every /= local->fragments ? local->fragments : 1;
    return compute + ((waits > 0 ? waits : 0) + behind) / every;
}
