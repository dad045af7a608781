/* Forming a generation, the first or the one after a loss: the caller's thread connects to all others, follows or
 * convenes, makes the links of what is proposed, and, once it has the state, accepts and waits for Begin. While it
 * waits it says every few seconds who is missing and why. */
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/point.h"
#include "base/status.h"
#include "cluster/state.h"

#define TOO_LONG "it took too long to form a generation"

struct forming {
    struct ls_cluster *cluster;
    struct pollfd *slots;
    int64_t next_report;
};

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- Beginning to seek ------------------------------------------------------------------------------------------ */

/* Streams that are of no use in the next generation: of who was lost. */
static void sever_lost(struct ls_cluster *cluster) {
    for (int rank = 0; rank < cluster->size; rank++) {
        struct ls_peer *peer = &cluster->peers[rank];
        bool lost = peer->silent || (ls_cluster_has_member(cluster, rank) && !ls_peer_connected(peer));
        if (rank != cluster->rank && lost) ls_peer_sever(peer, "it was lost, and is dialled again");
    }
}

/* From MEMBER: follows nobody yet. From an attempt that has failed: whom it followed is told that it has given up. */
static void seek(struct ls_cluster *cluster) {
    struct ls_proposal *proposal = &cluster->proposal;
    bool newer = proposal->number && !proposal->taken && !proposal->failed; /* came meanwhile */
    if (cluster->phase == LS_PHASE_MEMBER) {
        sever_lost(cluster);
        cluster->seeking_since = ls_now();
        (void)snprintf(cluster->cause, sizeof(cluster->cause), "%s", cluster->failure.message);
    }
    ls_abort_reset(cluster->config.abort);
    cluster->failure.status = LS_OK;
    cluster->broken = false;
    if (newer || cluster->phase == LS_PHASE_FENCED) return;
    ls_convene_renew(proposal, 0);
    ls_mesh_drop_data(cluster);
    cluster->phase = cluster->generation ? LS_PHASE_SEEKING : LS_PHASE_JOINING;
    ls_convene_again(cluster);
}

/* The group has gone on without this process: it comes as another one, without a state. */
static ls_status take_new_incarnation(struct ls_cluster *cluster) {
    ls_log_warning(cluster->config.log, "generation %llu went on without this process: it joins anew",
                   (unsigned long long)cluster->generation);
    for (int rank = 0; rank < cluster->size; rank++)
        if (rank != cluster->rank) ls_peer_sever(&cluster->peers[rank], "dialled anew");
    cluster->generation = 0;
    cluster->follows = -1;
    cluster->own = (struct ls_report){0};
    cluster->ledger.count = 0;
    cluster->dropped = true;
    cluster->phase = LS_PHASE_JOINING;
    return ls_cluster_draw_incarnation(cluster);
}

/* ---- Waiting ---------------------------------------------------------------------------------------------------- */

static int64_t deadline_of(const struct ls_cluster *cluster) {
    const struct ls_settings *settings = cluster->config.settings;
    double seconds = cluster->generation ? settings->rejoin_timeout : cluster->config.join_timeout;
    if (!cluster->generation && ls_cluster_knows_survivor(cluster) && seconds > 0 && settings->rejoin_timeout > seconds)
        seconds = settings->rejoin_timeout;
    if (cluster->least && cluster->generation)
        return later(ls_convene_shrinks_at(cluster), ls_convene_awaits_until(cluster)) + LS_QUORUM_TIMEOUT;
    return ls_deadline_after(cluster->seeking_since, seconds);
}

static ls_status too_late(const struct ls_cluster *cluster, const char *missing) {
    if (cluster->generation && cluster->least)
        return ls_fail(
            LS_UNAVAILABLE,
            "%.500s; those who are left may not go on: they are fewer than the %d of LOCKSTEP_ELASTIC, or not "
            "most of the workers before the loss: %.300s",
            cluster->cause, cluster->least, missing);
    if (cluster->generation)
        return ls_fail(LS_UNAVAILABLE,
                       "%.500s; it has not come back within the %g s of LOCKSTEP_REJOIN_TIMEOUT: %.400s",
                       cluster->cause, cluster->config.settings->rejoin_timeout, missing);
    return ls_fail(LS_DEADLINE_EXCEEDED,
                   "waited for %s. Start all tasks within %g s of each other, or set LOCKSTEP_JOIN_TIMEOUT (seconds) "
                   "higher",
                   missing, cluster->config.join_timeout);
}

/* Without the monitor. */
static ls_status report(struct forming *forming) {
    struct ls_cluster *cluster = forming->cluster;
    char text[LS_ERROR_SIZE];
    int64_t now = ls_now();
    ls_monitor_lock(&cluster->monitor);
    int64_t deadline = deadline_of(cluster);
    if (ls_convene_is_attempting(cluster)) deadline = LS_NEVER; /* an attempt has its own */
    bool ending = cluster->refusal != LS_OK, due = now >= deadline || now >= forming->next_report;
    if (due) ls_mesh_describe(cluster, cluster->seeking_since, text, sizeof(text));
    ls_monitor_unlock(&cluster->monitor);
    if (!due || ending) return LS_OK;
    if (now >= deadline) return too_late(cluster, text);
    ls_log_info(cluster->config.log, "waiting for %s", text);
    forming->next_report = now + (int64_t)(cluster->config.settings->report_interval * (double)LS_SECOND);
    return LS_OK;
}

/* A difference ends the join once everybody who can be reached soon is connected, or told already. */
static bool refused(const struct ls_cluster *cluster) {
    if (!cluster->refusal || ls_now() >= cluster->refusal_deadline) return cluster->refusal != LS_OK;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct ls_peer *peer = &cluster->peers[rank];
        if (rank != cluster->rank && !peer->told && !peer->accepted) return false;
    }
    return true;
}

/* An attempt takes too long: who is not done is given up by the convener, the convener by the others. */
static void expire(struct ls_cluster *cluster, bool (*is_done)(const struct ls_peer *peer)) {
    bool own = ls_convene_is_own(cluster);
    for (int rank = 0; rank < cluster->size; rank++) {
        struct ls_peer *peer = &cluster->peers[rank];
        if (rank == cluster->rank || !cluster->proposal.roster[rank]) continue;
        if (own ? !is_done(peer) : rank == cluster->follows) ls_control_drop(cluster, peer, TOO_LONG);
    }
}

static bool has_agreed(const struct ls_peer *peer) {
    return peer->agreed;
}

static int64_t forming_deadline(const struct ls_cluster *cluster) {
    return ls_deadline_after(cluster->forming_since, cluster->config.settings->collective_timeout);
}

/* What ends the wait from outside. */
static ls_status obstacle(const struct ls_cluster *cluster) {
    if (refused(cluster)) return ls_fail(cluster->refusal, "%s", cluster->refusal_text);
    if (cluster->over) return ls_fail(LS_CANCELLED, "the others have finished, and left in order");
    if (cluster->failure.status) return ls_fail(cluster->failure.status, "%s", cluster->failure.message);
    if (ls_abort_raised(cluster->config.abort)) return ls_abort_status(cluster->config.abort);
    return LS_OK;
}

/* When a convener that may not propose now looks again. */
static int64_t next_chance(const struct ls_cluster *cluster) {
    const int64_t times[] = {cluster->propose_at, ls_convene_settles_at(cluster), ls_convene_shrinks_at(cluster),
                             ls_convene_awaits_until(cluster)};
    int64_t now = ls_now(), next = LS_NEVER;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (times[i] > now) next = earlier(next, times[i]);
    return next;
}

/* One look at everything. *ready: a proposal's links are made. */
static ls_status look(struct forming *forming, int64_t *until, bool *ready) {
    struct ls_cluster *cluster = forming->cluster;
    if (cluster->phase == LS_PHASE_FENCED) {
        ls_status status = take_new_incarnation(cluster);
        if (status) return status;
    }
    if (cluster->proposal.failed) seek(cluster);
    if (cluster->phase == LS_PHASE_FORMING && ls_now() >= forming_deadline(cluster)) expire(cluster, ls_peer_complete);
    ls_mesh_step(cluster);
    if (!cluster->refusal) ls_convene(cluster);
    *ready = cluster->phase == LS_PHASE_FORMING && !cluster->proposal.failed && ls_mesh_complete(cluster);
    *until = earlier(ls_mesh_poll(cluster, forming->slots), deadline_of(cluster));
    if (cluster->phase == LS_PHASE_CONVENING) *until = earlier(*until, next_chance(cluster));
    if (cluster->phase == LS_PHASE_FORMING) *until = earlier(*until, forming_deadline(cluster));
    if (cluster->refusal) *until = earlier(*until, cluster->refusal_deadline);
    return cluster->proposal.failed ? LS_OK : obstacle(cluster);
}

static void take_proposal(struct ls_cluster *cluster, struct ls_generation *generation) {
    struct ls_proposal *proposal = &cluster->proposal;
    int source = 0;
    proposal->taken = true;
    cluster->count = 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        if (!proposal->roster[rank]) continue;
        if (rank == cluster->rank) cluster->place = cluster->count;
        if (rank == proposal->source) source = cluster->count;
        cluster->members[cluster->count++] = rank;
    }
    *generation = (struct ls_generation){
        .number = proposal->number,
        .position = proposal->position,
        .source = source,
        .copy = proposal->copy,
        .lacks = proposal->copy && (!cluster->own.holds || cluster->own.position < proposal->position),
    };
}

static ls_status form(struct forming *forming, struct ls_generation *generation) {
    struct ls_cluster *cluster = forming->cluster;
    for (;;) {
        int64_t until;
        bool ready;
        ls_monitor_lock(&cluster->monitor);
        ls_status status = look(forming, &until, &ready);
        if (!status && ready) take_proposal(cluster, generation);
        ls_monitor_unlock(&cluster->monitor);
        if (!status && !ready) status = report(forming);
        if (status || ready) return status;
        int timeout = ls_poll_timeout(earlier(until, forming->next_report), 1000);
        if (poll(forming->slots, (nfds_t)LS_MESH_SLOTS(cluster->size), timeout) > 0 && forming->slots[0].revents) {
            eventfd_t events;
            (void)eventfd_read(cluster->wake, &events);
        }
    }
}

ls_status ls_cluster_form(struct ls_cluster *cluster, const struct ls_standing *standing,
                          struct ls_generation *generation) {
    size_t count = LS_MESH_SLOTS(cluster->size);
    LS_CLEANUP(ls_free_pointer) struct pollfd *slots = ls_alloc_array(count, sizeof(*slots));
    if (!slots) return ls_fail_memory("descriptors to poll", count * sizeof(*slots));
    ls_monitor_lock(&cluster->monitor);
    cluster->own = (struct ls_report){0};
    if (!cluster->dropped) cluster->own = (struct ls_report){.holds = standing->holds, .position = standing->position};
    seek(cluster);
    ls_monitor_unlock(&cluster->monitor);
    struct forming forming = {
        .cluster = cluster, .slots = slots, .next_report = ls_deadline_in(cluster->config.settings->report_interval)};
    return form(&forming, generation);
}

/* ---- Accepting -------------------------------------------------------------------------------------------------- */

static void say_accept(struct ls_cluster *cluster) {
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_ACCEPT);
    message.number = cluster->proposal.number;
    if (!ls_convene_is_own(cluster)) ls_cluster_send(cluster->peers[cluster->follows].out, &message);
}

/* Whether there is nothing to wait for any more; with the monitor held, as the next one. */
static bool is_decided(struct ls_cluster *cluster) {
    if (cluster->phase == LS_PHASE_READY && !cluster->proposal.failed && ls_convene_is_own(cluster))
        ls_convene_begin(cluster);
    return cluster->phase != LS_PHASE_READY || cluster->proposal.failed || ls_abort_raised(cluster->config.abort);
}

static void wait_for_begin(struct ls_cluster *cluster) {
    while (!is_decided(cluster)) {
        if (ls_now() >= forming_deadline(cluster))
            expire(cluster, has_agreed);
        else
            (void)ls_monitor_wait(&cluster->monitor, forming_deadline(cluster));
    }
}

ls_status ls_cluster_accept(struct ls_cluster *cluster) {
    ls_status status = LS_OK;
    ls_monitor_lock(&cluster->monitor);
    bool may = cluster->phase == LS_PHASE_FORMING && cluster->proposal.taken && !cluster->proposal.failed;
    if (may && ls_convene_keep(cluster)) {
        cluster->phase = LS_PHASE_READY;
        say_accept(cluster);
        ls_reached("accepted");
        wait_for_begin(cluster);
    }
    if (cluster->phase != LS_PHASE_MEMBER)
        status = ls_abort_raised(cluster->config.abort)
                     ? ls_abort_status(cluster->config.abort)
                     : ls_fail(LS_UNAVAILABLE, "another attempt takes the place of this one");
    ls_monitor_unlock(&cluster->monitor);
    return status;
}

/* ---- After a failure -------------------------------------------------------------------------------------------- */

bool ls_cluster_may_recover(struct ls_cluster *cluster, ls_status status) {
    int64_t deadline = ls_now() + LS_CAUSE_TIMEOUT;
    bool broken = status == LS_UNAVAILABLE || status == LS_ABORTED, may;
    char error[LS_ERROR_SIZE];
    (void)snprintf(error, sizeof(error), "%s", ls_error());
    ls_monitor_lock(&cluster->monitor);
    while (broken && cluster->phase == LS_PHASE_MEMBER && !cluster->failure.status &&
           ls_monitor_wait(&cluster->monitor, deadline))
        continue;
    if (cluster->phase != LS_PHASE_MEMBER) {
        may = cluster->phase < LS_PHASE_MEMBER && (cluster->proposal.failed || status == LS_UNAVAILABLE) &&
              ls_now() < deadline_of(cluster);
    } else {
        if (status == LS_UNAVAILABLE && !cluster->failure.status) ls_control_stop(cluster, cluster->rank, error);
        may = cluster->failure.lost && (cluster->config.settings->rejoin_timeout > 0 || cluster->least);
    }
    ls_monitor_unlock(&cluster->monitor);
    return broken && may;
}

bool ls_cluster_is_over(struct ls_cluster *cluster) {
    ls_monitor_lock(&cluster->monitor);
    bool over = cluster->over;
    ls_monitor_unlock(&cluster->monitor);
    return over;
}

/* ---- Joining ---------------------------------------------------------------------------------------------------- */

void ls_cluster_give_up(struct ls_cluster *cluster, ls_status status) {
    char message[LS_ERROR_SIZE];
    (void)snprintf(message, sizeof(message), "%s", ls_error());
    struct ls_leave leave = {.code = status, .root = cluster->rank, .message = message};
    ls_cluster_end(cluster, &leave);
    (void)ls_fail(status, "%s", message);
}

ls_status ls_cluster_join(const struct ls_cluster_config *config, struct ls_cluster **made) {
    static const struct ls_standing nothing;
    struct ls_generation generation;
    struct ls_cluster *cluster;
    ls_status status = ls_cluster_new(config, &cluster);
    if (status) return status;
    do {
        status = ls_cluster_form(cluster, &nothing, &generation);
        if (!status) status = ls_cluster_accept(cluster);
    } while (status && ls_cluster_may_recover(cluster, status));
    if (status)
        ls_cluster_give_up(cluster, status);
    else
        *made = cluster;
    return status;
}
