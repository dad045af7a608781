/* The plan of a handover, and the way of the bytes: by broadcasts, of which each server takes its part. */
#include "store/handover.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/point.h"
#include "base/status.h"
#include "collective/collectives.h"
#include "store/handover_tables.h"

/* The words that each rank tells. */
enum { TELL_VERSION, TELL_BEFORE, TELL_SERVERS, TELL_SERVER, TELL_REPLICAS, TELL_LAYOUT, TELL_DIGEST, TELL_WORDS };
/* A worker its version, what has changed and whether it returns, a server each of what it keeps. */
enum { TELL_CHANGED = TELL_BEFORE, TELL_RETURNS = TELL_SERVERS, TELL_KEPT = 2, TELL_NEED = TELL_KEPT * TELL_WORDS };
enum { TELL_ALL = TELL_NEED + sizeof(struct ls_memory_need) / sizeof(int64_t) };

struct plan {
    struct ls_handover *handover;
    int workers, servers;
    bool serves;
    int64_t *told; /* [workers + servers][TELL_ALL] */
    int64_t version;
    int root;                /* the worker that gives */
    enum ls_changed changed; /* on all workers */
    bool returns;            /* all workers do */
    int64_t layout;          /* the newest division that is there, whole if any is; -1: none */
    int old;                 /* servers of that; 0: none */
    int *holders;            /* [old] the rank that holds what each of them owned; -1: nobody */
    bool whole;              /* each has a holder */
    bool stays;              /* every server has what it is to have */
    struct ls_holding *own;  /* a server's of that; NULL: it has none */
    struct ls_holding *next; /* a server's, where it does not stay */
};

static const int64_t *told_by(const struct plan *plan, int rank, int kept) {
    return plan->told + (size_t)rank * TELL_ALL + (size_t)kept * TELL_WORDS;
}

static void tell_kept(const struct ls_kept *kept, int64_t *words) {
    const struct ls_holding *holding = kept->holding;
    words[TELL_VERSION] = words[TELL_BEFORE] = -1;
    if (!holding) return;
    words[TELL_VERSION] = holding->version[0];
    words[TELL_BEFORE] = holding->version[1];
    words[TELL_SERVERS] = holding->servers;
    words[TELL_SERVER] = holding->server;
    words[TELL_REPLICAS] = holding->replicas;
    words[TELL_LAYOUT] = kept->layout;
    words[TELL_DIGEST] = (int64_t)kept->digest;
}

static ls_status tell_holdings(struct plan *plan) {
    const struct ls_handover *handover = plan->handover;
    size_t size = (size_t)plan->workers + (size_t)plan->servers;
    int64_t own[TELL_ALL] = {handover->version, (int64_t)handover->changed, handover->returns};
    for (int i = 0; plan->serves && i < TELL_KEPT; i++) tell_kept(&handover->kept[i], own + i * TELL_WORDS);
    memcpy(own + TELL_NEED, &handover->need, sizeof(handover->need));
    LS_CLEANUP(ls_free_pointer) size_t *counts = ls_alloc_array(size, sizeof(*counts));
    plan->told = ls_alloc_array(size, sizeof(own));
    if (!counts || !plan->told) return ls_fail_memory("what the parameter servers have", size * sizeof(own));
    for (size_t i = 0; i < size; i++) counts[i] = TELL_ALL;
    return ls_group_all_gather(handover->group,
                               LS_ALL_GATHER("what the parameter servers have", own, plan->told, counts, LS_INT64));
}

/* ---- the plan ---- */

static ls_status find_version(struct plan *plan) {
    plan->version = told_by(plan, 0, 0)[TELL_VERSION];
    plan->changed = LS_CHANGED_ALL;
    plan->returns = true;
    plan->root = -1;
    for (int i = 0; i < plan->workers; i++) {
        const int64_t *told = told_by(plan, i, 0);
        if (told[TELL_VERSION] != plan->version)
            return ls_fail(LS_DATA_LOSS, "rank 0 has made %lld steps, and rank %d has made %lld",
                           (long long)plan->version, i, (long long)told[TELL_VERSION]);
        plan->returns = plan->returns && told[TELL_RETURNS];
        if (told[TELL_CHANGED] < (int64_t)plan->changed)
            plan->changed = told[TELL_CHANGED] > 0 ? LS_CHANGED_VARIABLES : LS_CHANGED_NOTHING;
        if (plan->root < 0 && told[TELL_CHANGED] != LS_CHANGED_COPIED) plan->root = i;
    }
    if (plan->root < 0) plan->root = 0;
    plan->handover->changed = plan->changed;
    return LS_OK;
}

static bool is_sound(const int64_t *told) {
    return told[TELL_SERVERS] > 0 && told[TELL_SERVERS] <= INT16_MAX && told[TELL_SERVER] >= 0 &&
           told[TELL_SERVER] < told[TELL_SERVERS] && told[TELL_REPLICAS] >= 1 &&
           told[TELL_REPLICAS] <= told[TELL_SERVERS];
}

static bool is_of_model(const struct plan *plan, const int64_t *told) {
    return is_sound(told) && told[TELL_DIGEST] == (int64_t)ls_terms_digest(plan->handover->terms);
}

/* Servers of asynchronous training are ahead of workers. They have settled before, and are alike. */
static bool trusts_servers(const struct plan *plan) {
    return plan->handover->terms->asynchronous && plan->changed == LS_CHANGED_NOTHING;
}

static void find_servers_version(struct plan *plan) {
    for (int i = 0; trusts_servers(plan) && i < plan->servers * TELL_KEPT; i++) {
        const int64_t *told = told_by(plan, plan->workers + i / TELL_KEPT, i % TELL_KEPT);
        if (is_of_model(plan, told) && told[TELL_VERSION] > plan->version) plan->version = told[TELL_VERSION];
    }
}

static bool has_version(const struct plan *plan, const int64_t *told) {
    return is_of_model(plan, told) && (told[TELL_VERSION] == plan->version || told[TELL_BEFORE] == plan->version);
}

/* The words of server i on a division; NULL if it has not got it. */
static const int64_t *told_of(const struct plan *plan, int i, int64_t layout, int servers) {
    for (int kept = 0; kept < TELL_KEPT; kept++) {
        const int64_t *told = told_by(plan, plan->workers + i, kept);
        if (has_version(plan, told) && told[TELL_LAYOUT] == layout && told[TELL_SERVERS] == servers) return told;
    }
    return NULL;
}

/* The newest division before limit; NULL: there is none. */
static const int64_t *find_newest(const struct plan *plan, int64_t limit) {
    const int64_t *newest = NULL;
    for (int i = 0; i < plan->servers * TELL_KEPT; i++) {
        const int64_t *told = told_by(plan, plan->workers + i / TELL_KEPT, i % TELL_KEPT);
        if (has_version(plan, told) && told[TELL_LAYOUT] < limit &&
            (!newest || told[TELL_LAYOUT] > newest[TELL_LAYOUT]))
            newest = told;
    }
    return newest;
}

/* The owner itself holds a range, or else a server behind it. */
static void note_holder(const struct plan *plan, int rank, const int64_t *told) {
    for (int64_t i = 0; i < told[TELL_REPLICAS]; i++) {
        int *holder = &plan->holders[(told[TELL_SERVER] + plan->old - i) % plan->old];
        if (*holder < 0 || !i) *holder = rank;
    }
}

static ls_status look_at(struct plan *plan, const int64_t *division) {
    int copies = ls_layout_of(plan->handover->terms, plan->servers).copies;
    plan->layout = division[TELL_LAYOUT];
    plan->old = (int)division[TELL_SERVERS];
    plan->stays = plan->old == plan->servers;
    plan->whole = true;
    ls_free(plan->holders);
    plan->holders = ls_alloc_array((size_t)plan->old, sizeof(*plan->holders));
    if (!plan->holders) return ls_fail_memory("the parameter servers of the generation before", (size_t)plan->old);
    for (int i = 0; i < plan->old; i++) plan->holders[i] = -1;
    for (int i = 0; i < plan->servers; i++) {
        const int64_t *told = told_of(plan, i, plan->layout, plan->old);
        if (told) note_holder(plan, plan->workers + i, told);
        plan->stays = plan->stays && told && told[TELL_SERVER] == i && told[TELL_REPLICAS] == copies;
    }
    for (int i = 0; i < plan->old; i++) plan->whole = plan->whole && plan->holders[i] >= 0;
    return LS_OK;
}

static ls_status find_division(struct plan *plan) {
    const int64_t *newest = find_newest(plan, INT64_MAX), *division = newest;
    ls_status status = LS_OK;
    while (division && !plan->whole && !status) {
        status = look_at(plan, division);
        if (!plan->whole) division = find_newest(plan, division[TELL_LAYOUT]);
    }
    if (newest && !plan->whole && !status) status = look_at(plan, newest);
    for (int i = 0; (plan->whole || trusts_servers(plan)) && i < TELL_KEPT; i++)
        if (plan->handover->kept[i].holding && plan->handover->kept[i].layout == plan->layout)
            plan->own = plan->handover->kept[i].holding;
    plan->stays = plan->stays && plan->whole;
    return status;
}

/* Variables without moments are on every worker; asynchronous training needs a server that knows what is trained. */
static bool lacks_nothing(const struct plan *plan) {
    const struct ls_terms_model *terms = plan->handover->terms;
    bool known = !terms->moments && !terms->table_count && (plan->old || !trusts_servers(plan));
    return plan->changed == LS_CHANGED_ALL || plan->whole || known;
}

static void note_loss(const struct plan *plan) {
    plan->handover->lost = !plan->returns;
    plan->handover->anew = plan->returns;
}

/* The first server whose part nobody has. */
static const char *name_lost(const struct plan *plan, char name[48]) {
    int i = 0;
    while (i < plan->old && plan->holders[i] >= 0) i++;
    (void)snprintf(name, 48, i < plan->old ? "parameter server %d of %d" : "a parameter server", i, plan->old);
    return name;
}

static ls_status fail_lost(const struct plan *plan, const char *what) {
    char name[48];
    const char *advice = plan->returns || plan->handover->terms->replicas > 1
                             ? ""
                             : "; ls_parameter_server_options.replicas = 2 (lockstep train --ps-replicas 2) keeps them "
                               "on two servers";
    return ls_fail(LS_UNAVAILABLE, "%s was lost, and with it the only copy of %s after step %lld: %s%s",
                   name_lost(plan, name), what, (long long)plan->version, ls_part_way_back(plan->returns), advice);
}

/* All ranks find a loss together, and none goes before the others. A server that is not here may have a copy: the group
 * then forms once more, and waits for it. */
static ls_status check_moments(const struct plan *plan) {
    struct ls_handover *handover = plan->handover;
    const char *what = handover->terms->moments ? "the optimizer's moments" : "rows of its tables";
    if (lacks_nothing(plan)) return LS_OK;
    handover->waits = handover->listed > plan->servers && !handover->awaited;
    if (!handover->waits) note_loss(plan);
    ls_status status = ls_group_barrier(handover->group, "a parameter server's moments are lost");
    if (status) return status;
    if (handover->waits)
        return ls_fail(LS_UNAVAILABLE,
                       "a parameter server was lost, and of %d that are listed the %d here lack %s after step "
                       "%lld: all wait for the others",
                       handover->listed, plan->servers, handover->terms->moments ? "its moments" : what,
                       (long long)plan->version);
    return fail_lost(plan, what);
}

/* All ranks hear it together, and none goes before the others. */
static ls_status check_memory(const struct plan *plan) {
    const struct ls_handover *handover = plan->handover;
    struct ls_memory_need need = {0};
    int rank = plan->workers - 1;
    while (need.needed <= need.allowed && ++rank < plan->workers + plan->servers)
        memcpy(&need, told_by(plan, rank, 0) + TELL_NEED, sizeof(need));
    if (need.needed <= need.allowed) return LS_OK;
    ls_status status = ls_group_barrier(handover->group, "a parameter server lacks memory");
    return status ? status : ls_memory_check_told(handover->terms, rank, plan->servers, &need);
}

/* ---- the way to the servers ---- */

/* Brings a range to all servers: from a worker's blob, or from what a server has of the division before. */
static ls_status take_range(struct plan *plan, int blob, int root, struct ls_range range) {
    struct ls_handover *handover = plan->handover;
    size_t count = range.end - range.begin;
    LS_CLEANUP(ls_free_pointer) float *scratch = NULL;
    float *at = handover->blobs[blob] ? handover->blobs[blob] + range.begin : NULL;
    if (!count) return LS_OK;
    handover->moved += count * sizeof(float);
    const float *own = plan->own ? ls_holding_find(plan->own, blob, range) : NULL;
    if (!at) {
        at = scratch = ls_alloc_aligned(count * sizeof(float));
        if (!scratch) return ls_fail_memory("variables on their way to a parameter server", count * sizeof(float));
        if (own && ls_group_rank(handover->group) == root) memcpy(scratch, own, count * sizeof(float));
    }
    ls_status status =
        ls_group_broadcast(handover->group, LS_BROADCAST("to the parameter servers", at, count, LS_FLOAT32, root));
    if (!status && plan->serves) ls_holding_put(plan->next, blob, range, at);
    return status;
}

static ls_status take_from_worker(struct plan *plan, int blob) {
    const struct ls_terms_model *terms = plan->handover->terms;
    ls_status status = LS_OK;
    for (size_t b = 0; b < terms->bucket_count && !status; b++)
        status = take_range(plan, blob, plan->root, terms->buckets[b]);
    return status;
}

/* A worker gives what no server holds: its variables, of asynchronous training those that it has read last. */
static ls_status take_from_servers(struct plan *plan, int blob) {
    const struct ls_layout before = ls_layout_of(plan->handover->terms, plan->old);
    ls_status status = LS_OK;
    for (size_t b = 0; b < before.terms->bucket_count; b++)
        for (int i = 0; i < plan->old && !status; i++) {
            int holder = plan->holders[i] < 0 ? plan->root : plan->holders[i];
            status = take_range(plan, blob, holder, ls_layout_range(&before, b, i));
        }
    return status;
}

static ls_status take_variables(struct plan *plan) {
    return trusts_servers(plan) ? take_from_servers(plan, 0) : take_from_worker(plan, 0);
}

/* Moments that are zero need no bytes. The worker that gives says whether its are. */
static ls_status take_moments(struct plan *plan) {
    const struct ls_handover *handover = plan->handover;
    int64_t given = handover->blobs[1] != NULL;
    ls_status status = LS_OK;
    if (plan->changed == LS_CHANGED_ALL)
        status =
            ls_group_broadcast(handover->group, LS_BROADCAST("moments are given", &given, 1, LS_INT64, plan->root));
    for (int m = 1; m <= handover->terms->moments && !status; m++) {
        if (plan->changed != LS_CHANGED_ALL)
            status = plan->stays ? LS_OK : take_from_servers(plan, m);
        else if (given)
            status = take_from_worker(plan, m);
        else if (plan->serves)
            memset(plan->next->blobs[0][m], 0, plan->next->count * sizeof(float));
    }
    return status;
}

/* Of tables no worker has a copy: before the first step they are drawn, and behind a checkpoint one worker has them. */
static ls_status take_tables(struct plan *plan) {
    struct ls_handover *handover = plan->handover;
    const struct ls_table_move move = {handover->group, handover->terms, plan->own,  plan->serves ? plan->next : NULL,
                                       plan->old,       plan->holders,   plan->root, handover->tables};
    const struct ls_shard_part *first = handover->tables;
    int64_t source = !first ? 0 : first->copy ? 1 : first->version == LS_PART_ELSEWHERE ? 2 : 0;
    if (!handover->terms->table_count) return LS_OK;
    if (plan->changed != LS_CHANGED_ALL)
        return plan->stays ? LS_OK : ls_handover_tables_from_servers(&move, &handover->moved);
    ls_status status =
        ls_group_broadcast(handover->group, LS_BROADCAST("tables are given", &source, 1, LS_INT64, plan->root));
    if (status) return status;
    if (source == 1) return ls_handover_tables_from_worker(&move, &handover->moved);
    if (source || plan->version) {
        note_loss(plan);
        return ls_fail(
            LS_UNAVAILABLE,
            "a worker was lost, and with it the only copy of the tables of a checkpoint, after step %lld: %s",
            (long long)plan->version, plan->returns ? "all go back to it" : "start all tasks again");
    }
    ls_handover_tables_draw(&move);
    handover->moved += ls_terms_table_floats(handover->terms) * sizeof(float);
    return LS_OK;
}

static ls_status make_next(struct plan *plan) {
    struct ls_handover *handover = plan->handover;
    int server = ls_group_rank(handover->group) - plan->workers;
    if (!plan->serves) return LS_OK;
    if (!plan->stays) return ls_holding_new(handover->terms, plan->servers, server, &plan->next);
    plan->next = plan->own;
    return LS_OK;
}

static ls_status take_all(struct plan *plan) {
    if (plan->own) (void)ls_holding_return(plan->own, plan->version);
    ls_reached("handover");
    ls_status status = make_next(plan);
    if (status || (plan->stays && !plan->changed)) return status;
    status = take_tables(plan);
    if (!status) status = take_moments(plan);
    if (!status) status = take_variables(plan);
    if (!status && plan->serves) plan->next->version[0] = plan->version;
    return status;
}

/* A server that has all keeps also the division before, until it knows that the other servers have all. */
static void keep_next(struct plan *plan, int64_t generation, bool alone) {
    struct ls_kept *kept = plan->handover->kept;
    bool anew = plan->next != plan->own;
    for (int i = 0; i < TELL_KEPT; i++)
        if (kept[i].holding && kept[i].holding != plan->own) ls_holding_free(ls_steal(kept[i].holding));
    if (kept[1].holding) kept[0] = kept[1];
    kept[1] = (struct ls_kept){0};
    if (!anew) return;
    if (alone) ls_holding_free(kept[0].holding);
    if (!alone) kept[1] = kept[0];
    kept[0] = (struct ls_kept){plan->next, generation, ls_terms_digest(plan->handover->terms)};
    plan->next = NULL;
}

/* Nobody goes on before every server has all: a worker that goes on may forget that its variables have changed. */
ls_status ls_handover_run(struct ls_handover *handover, int64_t generation) {
    int servers = ls_group_serving(handover->group), workers = ls_group_size(handover->group) - servers;
    struct plan plan = {.handover = handover,
                        .workers = workers,
                        .servers = servers,
                        .layout = -1,
                        .serves = ls_group_rank(handover->group) >= workers};
    ls_status status = tell_holdings(&plan);
    if (!status) status = check_memory(&plan);
    if (!status) status = find_version(&plan);
    if (!status) find_servers_version(&plan);
    if (!status) status = find_division(&plan);
    if (!status) status = check_moments(&plan);
    if (!status) status = take_all(&plan);
    ls_reached("handed_over");
    if (status) {
        if (plan.next != plan.own) ls_holding_free(plan.next);
    } else {
        status = ls_group_barrier(handover->group, "the parameter servers have all");
        if (plan.serves) keep_next(&plan, generation, !status);
    }
    ls_free(plan.holders);
    ls_free(plan.told);
    return status;
}
