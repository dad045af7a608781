/* Forming a generation, the first or the one after a loss: the caller's thread connects to all others, follows or
 * convenes, makes the links of what is proposed, and, once it has the state, accepts and waits for Begin. While it
 * waits it says every few seconds who is missing and why. */
#include "cluster/join.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/kept_error.h"
#include "base/memory.h"
#include "base/point.h"
#include "cluster/auth_tls.h"
#include "cluster/cluster_private.h"
#include "cluster/elastic.h"
#include "cluster/exchange.h"
#include "cluster/failure.h"
#include "cluster/heartbeat.h"
#include "cluster/leave.h"
#include "cluster/loss.h"
#include "cluster/mesh.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/propose.h"
#include "cluster/servers.h"
#include "cluster/star.h"
#include "base/plain.h"

#define TOO_LONG "it took too long to connect or to hand its state over"

struct forming {
    struct ls_cluster *cluster;
    struct ls_mesh_slots slots;
    int64_t next_report, next_word, next_told;
    bool said; /* of this wait */
};

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- Beginning to seek ------------------------------------------------------------------------------------------ */

/* Streams that are of no use in the next generation: of who was lost. */
static void sever_lost(struct ls_cluster *cluster) {
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        bool lost = peer->silence.over || (ls_peer_is_member(cluster, peer->rank) && !ls_peer_connected(peer));
        if (peer->incarnation && lost) ls_peer_lose(cluster, peer, "it was lost, and is dialled again");
    }
}

/* From MEMBER: follows nobody yet. From an attempt that has failed: whom it followed is told that it has given up. */
static void seek(struct ls_cluster *cluster) {
    struct ls_proposal *proposal = &cluster->proposal;
    bool newer = proposal->number && !proposal->taken && !proposal->failed; /* came meanwhile */
    if (cluster->phase == LS_PHASE_MEMBER) {
        sever_lost(cluster);
        ls_star_reset(cluster);
        cluster->next.seeking_since = ls_now();
        cluster->next.servers_since = cluster->next.deserted_since = 0;
        cluster->next.unseen = cluster->failure.unseen || ls_failure_was_absent(cluster);
        (void)snprintf(cluster->next.cause, sizeof(cluster->next.cause), "%s", cluster->failure.message);
    }
    ls_abort_reset(cluster->config.abort);
    cluster->failure.status = LS_OK;
    cluster->exchanges.broken = false;
    if (newer || cluster->phase == LS_PHASE_FENCED) return;
    ls_propose_renew(proposal, 0);
    ls_data_channel_drop(&cluster->net.data);
    cluster->phase = cluster->generation ? LS_PHASE_SEEKING : LS_PHASE_JOINING;
    ls_propose_again(cluster);
}

/* The group has gone on without this process: it comes as another one, without a state. */
static ls_status take_new_incarnation(struct ls_cluster *cluster) {
    ls_log_warning(cluster->config.log, "the group went on without this process: it joins anew, as another one");
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) ls_peer_sever(peer, "dialled anew");
    cluster->generation = 0;
    cluster->next.follows = -1;
    cluster->next.own = (struct ls_report){0};
    cluster->elastic.ledger.count = cluster->elastic.closed.count = 0;
    cluster->next.dropped = true;
    cluster->phase = LS_PHASE_JOINING;
    ls_star_reset(cluster);
    return ls_cluster_draw_incarnation(cluster);
}

/* ---- Waiting ---------------------------------------------------------------------------------------------------- */

/* A parameter server waits as long as its workers may take to go on without others. */
static bool serves_elastic(const struct ls_cluster *cluster) {
    const char *elastic = cluster->config.elastic;
    return elastic && *elastic && ls_servers_has(cluster, cluster->rank);
}

static int64_t patience_of(const struct ls_cluster *cluster) {
    const struct ls_settings *settings = cluster->config.settings;
    double seconds = cluster->generation ? settings->rejoin_timeout : settings->join_timeout;
    if (!cluster->generation && ls_peer_is_any_survivor(cluster) && seconds > 0 && settings->rejoin_timeout > seconds)
        seconds = settings->rejoin_timeout;
    if (ls_servers_are_listed(cluster) && cluster->generation && seconds < cluster->config.settings->servers_wait)
        seconds = cluster->config.settings->servers_wait + settings->heartbeat_limit; /* for the loss of one alone */
    if (serves_elastic(cluster) && cluster->generation) {
        if (seconds < settings->heartbeat_limit) seconds = settings->heartbeat_limit;
        return ls_deadline_after(cluster->next.seeking_since, seconds) + LS_QUORUM_TIMEOUT;
    }
    if (cluster->elastic.least && cluster->generation) {
        int64_t votes_until =
            later(ls_elastic_shrinks_at(cluster), ls_elastic_awaits_until(cluster)) + LS_QUORUM_TIMEOUT;
        return ls_servers_are_listed(cluster) ? ls_deadline_after(votes_until, settings->servers_wait) : votes_until;
    }
    return ls_deadline_after(cluster->next.seeking_since, seconds);
}

static int64_t deadline_of(const struct ls_cluster *cluster) {
    return ls_deadline_earlier(patience_of(cluster), ls_servers_deserted_at(cluster));
}

/* When the wait for others ends; an attempt and a refusal have deadlines of their own. */
static int64_t waiting_deadline(const struct ls_cluster *cluster) {
    return cluster->end.refusal.status || ls_propose_is_attempting(cluster) ? LS_NEVER : deadline_of(cluster);
}

/* The wait of the one that this worker follows, as that one has told it. */
static bool describe_awaited(const struct ls_cluster *cluster, char text[LS_ERROR_SIZE]) {
    const struct ls_awaited *awaited = &cluster->exchanges.awaited;
    if (ls_propose_is_own(cluster) || !awaited->heard || awaited->sequence) return false;
    const struct ls_peer *leader = cluster->peers[awaited->rank];
    if (cluster->next.follows >= 0)
        (void)snprintf(text, LS_ERROR_SIZE, "%s, which leads and waits for %.800s", leader->name, awaited->text);
    else
        (void)snprintf(text, LS_ERROR_SIZE, "%s (%s), which led and waited for %.500s", leader->where,
                       ls_peer_reason(leader), awaited->text);
    return true;
}

/* "since 5 s, 295 s left", and who or what is missing. */
static void describe_waiting(struct ls_cluster *cluster, int64_t deadline, char text[LS_ERROR_SIZE]) {
    char times[64], left[32] = "", why[LS_ERROR_SIZE];
    if (describe_awaited(cluster, text)) return;
    if (deadline != LS_NEVER && deadline > ls_now())
        (void)ls_plain_text(left, sizeof(left), ", %.0f s left", -ls_seconds_since(deadline));
    (void)ls_plain_text(times, sizeof(times), "since %.0f s%s", ls_seconds_since(cluster->next.seeking_since), left);
    ls_propose_describe(cluster, why, sizeof(why));
    ls_mesh_describe(cluster, times, text, *why ? LS_ERROR_SIZE / 2 : LS_ERROR_SIZE);
    size_t used = strlen(text);
    if (used && *why)
        (void)snprintf(text + used, LS_ERROR_SIZE - used, "; and for %.400s", why);
    else if (!used)
        (void)snprintf(text, LS_ERROR_SIZE, "%.700s, %s", *why ? why : "the others to be ready", times);
}

/* The first that has given up knows the root. */
static void describe_wait(struct ls_cluster *cluster, int64_t deadline, char text[LS_ERROR_SIZE]) {
    char missing[LS_ERROR_SIZE];
    describe_waiting(cluster, deadline, missing);
    if (!cluster->generation && *cluster->next.cause)
        (void)snprintf(text, LS_ERROR_SIZE, "%.600s; and for %.300s", cluster->next.cause, missing);
    else
        memcpy(text, missing, sizeof(missing));
}

static ls_status too_late(const struct ls_cluster *cluster, const char *missing) {
    if (ls_now() >= ls_servers_deserted_at(cluster)) return ls_servers_give_up(cluster, missing);
    if (cluster->generation && cluster->elastic.least)
        return ls_fail(LS_UNAVAILABLE, "%.240s; those who are left may not go on without %.700s", cluster->next.cause,
                       missing);
    if (cluster->generation)
        return ls_fail(LS_UNAVAILABLE,
                       "%.500s; it has not come back within the %g s of LOCKSTEP_REJOIN_TIMEOUT: %.400s",
                       cluster->next.cause, cluster->config.settings->rejoin_timeout, missing);
    return ls_fail(LS_DEADLINE_EXCEEDED,
                   "waited for %s. %s %g s of each other, or set LOCKSTEP_JOIN_TIMEOUT (seconds) higher", missing,
                   ls_mesh_way_out(cluster), cluster->config.settings->join_timeout);
}

/* The convener tells its followers of its wait twice as often as they print it. With the monitor held. */
static void tell_followers(struct forming *forming, int64_t deadline) {
    struct ls_cluster *cluster = forming->cluster;
    char text[LS_ERROR_SIZE];
    if (ls_now() < forming->next_word) return;
    forming->next_word = ls_deadline_in(cluster->config.settings->report_interval / 2);
    if (cluster->phase != LS_PHASE_CONVENING) return;
    describe_wait(cluster, deadline, text);
    ls_exchange_say_waiting(cluster, 0, 0, text);
}

/* Of many workers the convener speaks, and before there is one the lowest that is up. */
static bool speaks(const struct ls_cluster *cluster) {
    if (cluster->size <= LS_LOG_FEW || ls_propose_is_own(cluster)) return true;
    if (cluster->next.follows >= 0) return false;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        if (peer->rank < cluster->rank && ls_peer_connected(peer)) return false;
    return true;
}

static bool is_first_of_host(const struct ls_cluster *cluster) {
    const char *own = cluster->peers[cluster->rank]->task->host;
    for (int rank = 0; rank < cluster->rank; rank++)
        if (strcmp(ls_cluster_view_member(cluster->config.tf_config, rank)->host, own) == 0) return false;
    return true;
}

/* The first worker of a host says once why it waits, for who reads that host's log alone. Without the monitor. */
static void say_waiting(struct forming *forming, const char *text, bool spoken) {
    bool once = !forming->said && is_first_of_host(forming->cluster);
    ls_log_shared(forming->cluster->config.log, spoken || once, LS_LOG_INFO, "waiting for %s", text);
    forming->said = true;
}

/* Returns true if the program that asks is to be told now. */
static bool is_to_tell(struct forming *forming) {
    const struct ls_cluster *cluster = forming->cluster;
    if (cluster->generation || !cluster->config.waiting || ls_now() < forming->next_told) return false;
    forming->next_told = ls_now() + LS_SECOND;
    return true;
}

/* Without the monitor. */
static ls_status report_waiting(struct forming *forming) {
    struct ls_cluster *cluster = forming->cluster;
    char text[LS_ERROR_SIZE];
    int64_t now = ls_now();
    ls_monitor_lock(&cluster->monitor);
    int64_t deadline = waiting_deadline(cluster);
    bool spoken = speaks(cluster), ending = cluster->end.refusal.status != LS_OK;
    bool due = now >= deadline || now >= forming->next_report, told = is_to_tell(forming);
    if (due || told) describe_wait(cluster, deadline, text);
    tell_followers(forming, deadline);
    ls_monitor_unlock(&cluster->monitor);
    if (told) cluster->config.waiting(cluster->config.context, text);
    if (!due) return LS_OK;
    if (now >= deadline) return too_late(cluster, text);
    if (!ending) say_waiting(forming, text, spoken);
    forming->next_report = now + (int64_t)(cluster->config.settings->report_interval * (double)LS_SECOND);
    return LS_OK;
}

/* It knows: it was told, or it has refused this worker itself and cannot be reached any more. */
static bool knows(const struct ls_peer *peer) {
    return peer->end.told ||
           (peer->end.refused && !peer->out && strcmp(peer->attempt.dial.why, peer->attempt.why) != 0);
}

/* A difference ends the join once everybody who can be reached soon is connected, or told already. */
static bool refused(const struct ls_cluster *cluster) {
    int untold = 0;
    if (!cluster->end.refusal.status || ls_now() >= cluster->end.refusal.deadline)
        return cluster->end.refusal.status != LS_OK;
    for (const struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next)
        untold += ls_star_wants(cluster, peer) && !knows(peer) && !peer->accepted;
    return ls_auth_tls_has_told(cluster, untold);
}

/* An attempt takes too long: who is not done is given up by the convener, the convener by the others. */
static void expire(struct ls_cluster *cluster, bool (*is_done)(const struct ls_peer *peer)) {
    bool own = ls_propose_is_own(cluster);
    for (struct ls_peer *peer = cluster->first_peer; peer; peer = peer->next) {
        if (!cluster->proposal.roster[peer->rank]) continue;
        if (own ? !is_done(peer) : peer->rank == cluster->next.follows) ls_loss_drop(cluster, peer, TOO_LONG);
    }
}

static bool has_agreed(const struct ls_peer *peer) {
    return peer->report.agreed;
}

static int64_t forming_deadline(const struct ls_cluster *cluster) {
    return ls_deadline_after(cluster->next.forming_since, cluster->config.settings->collective_timeout);
}

/* The reason from outside that ends the wait. */
static ls_status join_obstacle(const struct ls_cluster *cluster) {
    if (refused(cluster)) return ls_fail(cluster->end.refusal.status, "%s", cluster->end.refusal.text);
    if (*cluster->end.stop) return ls_fail(LS_CANCELLED, "%s", cluster->end.stop);
    if (cluster->end.over) return ls_fail(LS_CANCELLED, "the others have finished, and left in order");
    if (cluster->end.fatal.status) return ls_fail(cluster->end.fatal.status, "%s", cluster->end.fatal.message);
    if (cluster->failure.status) return ls_fail(cluster->failure.status, "%s", cluster->failure.message);
    if (ls_abort_raised(cluster->config.abort)) return ls_abort_status(cluster->config.abort);
    return LS_OK;
}

/* When a convener that may not propose now looks again. */
static int64_t next_chance(const struct ls_cluster *cluster) {
    const int64_t times[] = {cluster->next.propose_at, ls_servers_settle_at(cluster), ls_elastic_settles_at(cluster),
                             ls_elastic_shrinks_at(cluster), ls_elastic_awaits_until(cluster)};
    int64_t now = ls_now(), next = LS_NEVER;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (times[i] > now) next = ls_deadline_earlier(next, times[i]);
    return next;
}

/* One look at everything. *ready: a proposal's links are made. */
static ls_status look_for_group(struct forming *forming, int64_t *until, bool *ready) {
    struct ls_cluster *cluster = forming->cluster;
    if (cluster->phase == LS_PHASE_FENCED) {
        ls_status status = take_new_incarnation(cluster);
        if (status) return status;
    }
    if (cluster->proposal.failed) seek(cluster);
    if (cluster->phase == LS_PHASE_FORMING && ls_now() >= forming_deadline(cluster)) expire(cluster, ls_peer_connected);
    ls_mesh_step(cluster);
    ls_servers_look_for_workers(cluster);
    if (!cluster->end.refusal.status) ls_propose(cluster);
    *ready = cluster->phase == LS_PHASE_FORMING && !cluster->proposal.failed && ls_mesh_complete(cluster);
    *until = ls_deadline_earlier(ls_mesh_poll(cluster, &forming->slots), waiting_deadline(cluster));
    if (cluster->phase == LS_PHASE_CONVENING) *until = ls_deadline_earlier(*until, next_chance(cluster));
    if (cluster->phase == LS_PHASE_FORMING) *until = ls_deadline_earlier(*until, forming_deadline(cluster));
    if (cluster->end.refusal.status) *until = ls_deadline_earlier(*until, cluster->end.refusal.deadline);
    return cluster->proposal.failed ? LS_OK : join_obstacle(cluster);
}

static void take_proposal(struct ls_cluster *cluster, struct ls_generation *generation) {
    struct ls_proposal *proposal = &cluster->proposal;
    int source = 0;
    proposal->taken = true;
    int count = 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        if (rank == cluster->workers) cluster->group.size = count;
        if (!proposal->roster[rank]) continue;
        if (rank == cluster->rank) cluster->group.rank = count;
        if (rank == proposal->source) source = count;
        cluster->group.members[count++] = rank;
    }
    if (cluster->size == cluster->workers) cluster->group.size = count;
    cluster->group.servers = count - cluster->group.size;
    ls_heartbeat_pace(cluster);
    *generation = (struct ls_generation){
        .number = proposal->number,
        .position = proposal->position,
        .source = source,
        .copy = proposal->copy,
        .lacks = proposal->copy && (!cluster->next.own.holds || cluster->next.own.position < proposal->position),
    };
}

static ls_status form(struct forming *forming, struct ls_generation *generation) {
    struct ls_cluster *cluster = forming->cluster;
    for (;;) {
        int64_t until;
        bool ready;
        ls_monitor_lock(&cluster->monitor);
        ls_status status = look_for_group(forming, &until, &ready);
        if (!status && ready) take_proposal(cluster, generation);
        ls_monitor_unlock(&cluster->monitor);
        if (!status && !ready) status = report_waiting(forming);
        if (status || ready) return status;
        int64_t next = ls_deadline_earlier(forming->next_report, forming->next_word);
        if (!cluster->generation && cluster->config.waiting) next = ls_deadline_earlier(next, forming->next_told);
        int timeout = ls_poll_timeout(ls_deadline_earlier(until, next), 1000);
        const struct ls_mesh_slots *slots = &forming->slots;
        if (poll(slots->at, (nfds_t)slots->count, timeout) > 0 && slots->at[0].revents) {
            eventfd_t events;
            (void)eventfd_read(cluster->net.wake, &events);
        }
    }
}

ls_status ls_join_form(struct ls_cluster *cluster, const struct ls_standing *standing,
                       struct ls_generation *generation) {
    ls_monitor_lock(&cluster->monitor);
    cluster->next.own = (struct ls_report){0};
    if (!cluster->next.dropped)
        cluster->next.own = (struct ls_report){.holds = standing->holds, .position = standing->position};
    seek(cluster);
    ls_monitor_unlock(&cluster->monitor);
    double interval = cluster->config.settings->report_interval;
    struct forming forming = {
        .cluster = cluster, .next_report = ls_deadline_in(interval), .next_word = ls_deadline_in(interval / 2)};
    ls_status status = form(&forming, generation);
    ls_free(forming.slots.at);
    return status;
}

/* ---- Accepting -------------------------------------------------------------------------------------------------- */

static void say_accept(struct ls_cluster *cluster) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_ACCEPT);
    message.number = cluster->proposal.number;
    if (!ls_propose_is_own(cluster)) ls_outbox_send(cluster->peers[cluster->next.follows]->out, &message);
}

/* Returns true if there is nothing to wait for any more. With the monitor held, as the next one. */
static bool is_decided(struct ls_cluster *cluster) {
    if (cluster->phase == LS_PHASE_READY && !cluster->proposal.failed && ls_propose_is_own(cluster))
        ls_propose_begin(cluster);
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

/* Why an attempt came to nothing. */
static ls_status displaced(const struct ls_cluster *cluster) {
    if (ls_abort_raised(cluster->config.abort)) return ls_abort_status(cluster->config.abort);
    return ls_fail(LS_UNAVAILABLE, "another attempt takes the place of this one");
}

static bool offer(struct ls_cluster *cluster) {
    bool may = cluster->phase == LS_PHASE_FORMING && cluster->proposal.taken && !cluster->proposal.failed;
    if (!may || !ls_propose_keep(cluster)) return false;
    cluster->phase = LS_PHASE_READY;
    say_accept(cluster);
    ls_reached("accepted");
    return true;
}

ls_status ls_join_accept(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    if (offer(cluster)) wait_for_begin(cluster);
    return cluster->phase == LS_PHASE_MEMBER ? LS_OK : displaced(cluster);
}

ls_status ls_join_offer(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    return offer(cluster) ? LS_OK : displaced(cluster);
}

ls_status ls_join_watch(struct ls_cluster *cluster) {
    LS_HOLD(&cluster->monitor);
    bool stands = cluster->phase == LS_PHASE_MEMBER || (cluster->phase == LS_PHASE_READY && !cluster->proposal.failed);
    ls_status status = cluster->end.over ? ls_fail(LS_CANCELLED, "the others have finished, and left in order")
                                         : join_obstacle(cluster);
    return status || stands ? status : displaced(cluster);
}

/* ---- After a failure -------------------------------------------------------------------------------------------- */

/* Past the deadline only to say whom it has waited for, as another one has told that gave up. */
static bool may_form(const struct ls_cluster *cluster) {
    return ls_now() < deadline_of(cluster) || (!cluster->generation && *cluster->next.cause);
}

/* A worker that is late in an attempt ends that attempt. In a generation it ends the job. */
bool ls_join_may_recover(struct ls_cluster *cluster, ls_status status, bool severed) {
    int64_t deadline = ls_now() + LS_CAUSE_TIMEOUT;
    bool broken = status == LS_UNAVAILABLE || status == LS_ABORTED, late = false, may;
    char error[LS_ERROR_SIZE];
    (void)snprintf(error, sizeof(error), "%s", ls_error());
    ls_monitor_lock(&cluster->monitor);
    while (broken && cluster->phase == LS_PHASE_MEMBER && !cluster->failure.status &&
           ls_monitor_wait(&cluster->monitor, deadline))
        continue;
    if (cluster->phase != LS_PHASE_MEMBER) {
        late = status == LS_DEADLINE_EXCEEDED && ls_propose_is_attempting(cluster);
        may = cluster->phase < LS_PHASE_MEMBER && (cluster->proposal.failed || status == LS_UNAVAILABLE || late) &&
              may_form(cluster);
    } else {
        if (severed && !cluster->failure.status) ls_failure_stop(cluster, cluster->rank, error);
        bool waits = cluster->config.settings->rejoin_timeout > 0 || cluster->elastic.least;
        bool serves = ls_servers_has(cluster, cluster->rank) || ls_servers_has(cluster, cluster->failure.root);
        may = cluster->failure.lost && (waits || serves);
    }
    ls_monitor_unlock(&cluster->monitor);
    return (broken || late) && may;
}

/* ---- Joining ---------------------------------------------------------------------------------------------------- */

void ls_join_give_up(struct ls_cluster *cluster, ls_status status) {
    struct ls_kept_error kept = ls_kept_error_of(status);
    const char *message = status ? kept.message : cluster->end.stopped;
    struct ls_leave leave = {.code = status, .root = cluster->rank, .message = message};
    ls_leave_end(cluster, &leave);
    (void)ls_kept_error_raise(&kept);
}
