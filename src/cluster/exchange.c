/* Exchange: every member sends its share to the coordinator, which sends all shares to every member: two messages a
 * member, or more where the shares are large. Exchanges are numbered; the names only tell two workers that do different
 * things. The coordinator finds that, and who is missing, and tells the others. */
#include "cluster/exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/cluster_private.h"
#include "cluster/outbox.h"
#include "cluster/peer.h"
#include "cluster/servers.h"
#include "cluster/star.h"

#define TICK (100 * LS_MILLISECOND) /* between looks at the abort flag */

struct exchange {
    struct ls_cluster *cluster;
    const char *name;
    uint64_t sequence;
    double timeout;
    int64_t started, deadline, next_report, next_word;
};

static ls_status check_share(const char *name, struct ls_bytes bytes) {
    size_t length = strlen(name);
    if (!length || length > 255) return ls_fail(LS_INVALID_ARGUMENT, "an exchange's name has 1 to 255 bytes");
    if (bytes.size > LS_PAYLOAD_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "exchange '%s' of %zu bytes is above the limit of %u", name, bytes.size,
                       LS_PAYLOAD_MAX);
    return LS_OK;
}

static bool coordinates(const struct exchange *exchange) {
    return ls_star_coordinates(exchange->cluster);
}

static struct ls_peer *coordinator_of(const struct exchange *exchange) {
    return exchange->cluster->peers[ls_star_coordinator(exchange->cluster)];
}

static void say_share(const struct exchange *exchange, struct ls_bytes bytes) {
    struct ls_message message = ls_outbox_message(exchange->cluster, LS_MESSAGE_SHARE);
    message.share = (struct ls_share){exchange->sequence, exchange->name, bytes.data, bytes.size};
    ls_outbox_send(coordinator_of(exchange)->out, &message);
}

/* ---- The answer -------------------------------------------------------------------------------------------------- */

/* The parts from first on that fit in one message; returns how many. */
static int count_parts(const struct exchange *exchange, const struct ls_bytes *parts, int first) {
    size_t size = 0;
    int count = 0;
    for (; first + count < exchange->cluster->group.size; count++) {
        size += parts[first + count].size + sizeof(uint32_t) + 1;
        if (count && size > LS_PAYLOAD_MAX) break;
    }
    return count;
}

static ls_status say_parts(const struct exchange *exchange, const struct ls_bytes *parts, int first, int count) {
    struct ls_message message = ls_outbox_message(exchange->cluster, LS_MESSAGE_SHARES);
    LS_CLEANUP(ls_free_pointer) uint32_t *sizes = ls_alloc_array((size_t)count, sizeof(*sizes));
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[first + i].size;
    LS_CLEANUP(ls_free_pointer) uint8_t *payload = ls_alloc(size);
    if (!sizes || !payload) return ls_fail_memory("the shares of an exchange", size);
    uint8_t *end = payload;
    for (int i = 0; i < count; i++) {
        const struct ls_bytes *part = &parts[first + i];
        if (part->size) memcpy(end, part->data, part->size);
        end += part->size;
        sizes[i] = (uint32_t)part->size;
    }
    message.shares = (struct ls_shares){.sequence = exchange->sequence,
                                        .name = exchange->name,
                                        .first = first,
                                        .count = count,
                                        .sizes = sizes,
                                        .payload = payload,
                                        .size = size};
    ls_outbox_send_all(exchange->cluster, &message, exchange->cluster->roster);
    return LS_OK;
}

static ls_status say_answer(const struct exchange *exchange, const struct ls_bytes *parts) {
    ls_status status = LS_OK;
    for (int first = 0, count; first < exchange->cluster->group.size && !status; first += count) {
        count = count_parts(exchange, parts, first);
        status = say_parts(exchange, parts, first, count);
    }
    return status;
}

static void say_no_answer(const struct exchange *exchange, ls_status status) {
    struct ls_message message = ls_outbox_message(exchange->cluster, LS_MESSAGE_SHARES);
    message.shares = (struct ls_shares){
        .sequence = exchange->sequence, .name = exchange->name, .code = status, .message = ls_error()};
    ls_outbox_send_all(exchange->cluster, &message, exchange->cluster->roster);
}

void ls_exchange_release(struct ls_cluster *cluster) {
    struct ls_exchange_answer *answer = &cluster->exchanges.answer;
    for (int i = 0; answer->parts && i < cluster->size; i++) ls_free(answer->parts[i].data);
    ls_free(ls_steal(answer->parts));
    answer->sequence = 0;
    answer->count = 0;
    answer->code = LS_OK;
}

void ls_exchange_renew(struct ls_cluster *cluster) {
    ls_exchange_release(cluster);
    cluster->exchanges.begun = 0;
    cluster->exchanges.finished = false;
    cluster->exchanges.awaited.heard = 0;
}

static bool store_parts(struct ls_cluster *cluster, const struct ls_shares *shares) {
    struct ls_exchange_answer *answer = &cluster->exchanges.answer;
    const uint8_t *part = shares->payload;
    if (!answer->parts) answer->parts = ls_alloc_array((size_t)cluster->size, sizeof(*answer->parts));
    if (!answer->parts) return false;
    for (int i = 0; i < shares->count; i++) {
        struct ls_bytes *bytes = &answer->parts[shares->first + i];
        *bytes = (struct ls_bytes){ls_alloc(shares->sizes[i]), shares->sizes[i]};
        if (!bytes->data) return false;
        if (!bytes->size) continue;
        memcpy(bytes->data, part, bytes->size);
        part += bytes->size;
    }
    answer->count += shares->count;
    return true;
}

/* The parts come in order, and only for an exchange that has begun: it needs this worker's share. A failure may come
 * before. */
static bool receive_answer(struct ls_cluster *cluster, const struct ls_shares *shares) {
    struct ls_exchange_answer *answer = &cluster->exchanges.answer;
    uint64_t begun = cluster->exchanges.begun;
    bool fits = shares->first == answer->count && shares->count <= cluster->group.size - shares->first;
    if (shares->code ? shares->sequence > begun + 1 : shares->sequence != begun || !fits) return false;
    answer->sequence = shares->sequence;
    answer->code = shares->code;
    (void)snprintf(answer->message, sizeof(answer->message), "%s", shares->message);
    return shares->code || store_parts(cluster, shares);
}

/* ---- What the coordinator tells ---------------------------------------------------------------------------------- */

static int index_of(const struct ls_cluster *cluster, int rank) {
    for (int i = 0; i < cluster->group.size; i++)
        if (cluster->group.members[i] == rank) return i;
    return -1;
}

static void receive_finished(const struct ls_cluster *cluster, const struct ls_finished *finished) {
    int index = index_of(cluster, finished->rank);
    if (index >= 0) ls_abort_limit(cluster->config.abort, index, finished->calls);
}

/* The fewest collectives are of interest alone: the call after them cannot succeed. */
void ls_exchange_note_exit(struct ls_cluster *cluster, int rank, const void *share, size_t size) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_FINISHED);
    struct ls_exchanges *exchanges = &cluster->exchanges;
    uint64_t calls;
    if (size != sizeof(calls)) return;
    memcpy(&calls, share, sizeof(calls));
    if (exchanges->finished && calls >= exchanges->calls) return;
    exchanges->finished = true;
    exchanges->calls = calls;
    message.finished = (struct ls_finished){rank, calls};
    receive_finished(cluster, &message.finished);
    ls_outbox_send_all(cluster, &message, cluster->roster);
}

static void receive_waiting(struct ls_cluster *cluster, int rank, const struct ls_waiting *waiting) {
    struct ls_awaited *awaited = &cluster->exchanges.awaited;
    awaited->heard = ls_now();
    awaited->rank = rank;
    awaited->sequence = waiting->sequence;
    awaited->missing = waiting->missing;
    (void)snprintf(awaited->text, sizeof(awaited->text), "%s", waiting->message);
}

void ls_exchange_say_waiting(struct ls_cluster *cluster, uint64_t sequence, int missing, const char *text) {
    struct ls_message message = ls_outbox_message(cluster, LS_MESSAGE_WAITING);
    message.waiting = (struct ls_waiting){sequence, missing, text};
    ls_outbox_send_all(cluster, &message, NULL);
}

bool ls_exchange_receive(struct ls_cluster *cluster, const struct ls_peer *peer, const struct ls_message *message) {
    bool joins = message->kind == LS_MESSAGE_WAITING && !message->waiting.sequence;
    bool known = joins ? cluster->next.follows == peer->rank
                       : cluster->phase >= LS_PHASE_MEMBER && message->generation == cluster->generation &&
                             peer->rank == ls_star_coordinator(cluster);
    bool apart = ls_servers_has(cluster, cluster->rank) && !joins; /* a server takes no part in exchanges */
    if (!known || apart) return true;
    bool valid = true;
    if (message->kind == LS_MESSAGE_SHARES)
        valid = receive_answer(cluster, &message->shares);
    else if (message->kind == LS_MESSAGE_FINISHED)
        receive_finished(cluster, &message->finished);
    else
        receive_waiting(cluster, peer->rank, &message->waiting);
    ls_outbox_notify(cluster);
    return valid;
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

/* At the coordinator: a member that does something else; NULL: none yet. */
static const struct ls_peer *find_other(const struct exchange *exchange) {
    const struct ls_cluster *cluster = exchange->cluster;
    for (int i = 0; i < cluster->group.size; i++) {
        if (i == cluster->group.rank) continue;
        const struct ls_stored_share *share = ls_peer_find_share(ls_peer_member(cluster, i), exchange->sequence);
        if (share && strcmp(share->name, exchange->name) != 0) return ls_peer_member(cluster, i);
    }
    return NULL;
}

static ls_status fail_without(const struct exchange *exchange, const struct ls_peer *peer) {
    return ls_fail(LS_FAILED_PRECONDITION, "%s (rank %d) has finished and takes no part in '%s'", peer->name,
                   peer->rank, exchange->name);
}

/* A reason not to wait any more, the root first: an abort, a member that does something else or has gone. */
static ls_status exchange_obstacle(const struct exchange *exchange) {
    struct ls_cluster *cluster = exchange->cluster;
    if (ls_abort_raised(cluster->config.abort)) return ls_abort_status(cluster->config.abort);
    if (!coordinates(exchange))
        return coordinator_of(exchange)->end.left ? fail_without(exchange, coordinator_of(exchange)) : LS_OK;
    const struct ls_peer *other = find_other(exchange);
    if (other)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "workers do different things: '%s' on %s (rank %d), '%s' on %s (rank %d)", exchange->name,
                       cluster->peers[cluster->rank]->name, cluster->rank,
                       ls_peer_find_share(other, exchange->sequence)->name, other->name, other->rank);
    for (int i = 0; i < cluster->group.size; i++) {
        const struct ls_peer *peer = ls_peer_member(cluster, i);
        if (i != cluster->group.rank && peer->end.left && !ls_peer_find_share(peer, exchange->sequence))
            return fail_without(exchange, peer);
    }
    return LS_OK;
}

/* The names of those whose share has not come to the coordinator; returns how many. */
static int describe_gathered(const struct exchange *exchange, char text[256]) {
    const struct ls_cluster *cluster = exchange->cluster;
    size_t used = 0;
    int missing = 0;
    text[0] = 0;
    for (int i = 0; i < cluster->group.size; i++) {
        const struct ls_peer *peer = ls_peer_member(cluster, i);
        if (i == cluster->group.rank || ls_peer_find_share(peer, exchange->sequence)) continue;
        missing++;
        if (used + sizeof(peer->name) + 16 < 256)
            used += (size_t)snprintf(text + used, 256 - used, "%s%s", used ? ", " : "", peer->name);
        else if (text[used ? used - 1 : 0] != '.')
            used += (size_t)snprintf(text + used, 256 - used, ", ...");
    }
    return missing;
}

/* A member waits for the coordinator, and for whom that one waits. */
static int describe_answer(const struct exchange *exchange, char text[256]) {
    const struct ls_cluster *cluster = exchange->cluster;
    const struct ls_awaited *awaited = &cluster->exchanges.awaited;
    text[0] = 0;
    if (cluster->exchanges.answer.count == cluster->group.size) return 0;
    bool told = awaited->heard && awaited->sequence == exchange->sequence;
    (void)snprintf(text, 256, "%.250s", told ? awaited->text : coordinator_of(exchange)->name);
    return told ? awaited->missing : 1;
}

static ls_status give_up_waiting(const struct exchange *exchange, const char *missing, int count) {
    return ls_fail(LS_DEADLINE_EXCEEDED, "'%s': %d of %d workers did not come within %g s: %s", exchange->name, count,
                   exchange->cluster->group.size, exchange->timeout, missing);
}

/* The coordinator tells whom it waits for twice as often as the others print it. */
static void tell_missing(struct exchange *exchange, const char *missing, int count) {
    struct ls_cluster *cluster = exchange->cluster;
    if (!coordinates(exchange) || ls_now() < exchange->next_word) return;
    exchange->next_word = ls_deadline_in(cluster->config.settings->report_interval / 2);
    ls_exchange_say_waiting(cluster, exchange->sequence, count, missing);
}

/* Of many members the coordinator speaks, and where it is the one that is awaited the next. */
static bool speaks_of_missing(const struct exchange *exchange) {
    const struct ls_cluster *cluster = exchange->cluster;
    const struct ls_awaited *awaited = &cluster->exchanges.awaited;
    if (cluster->group.size <= LS_LOG_FEW || coordinates(exchange)) return true;
    bool told = awaited->heard && awaited->sequence == exchange->sequence;
    int next = cluster->group.members[0] == ls_star_coordinator(cluster) ? 1 : 0;
    return !told && cluster->group.rank == next;
}

/* Says for whom it waits. The monitor is let go for the words. */
static void report_missing(struct exchange *exchange, const char *missing) {
    const struct ls_cluster_config *config = &exchange->cluster->config;
    if (ls_now() < exchange->next_report) return;
    exchange->next_report = ls_deadline_in(config->settings->report_interval);
    bool spoken = speaks_of_missing(exchange);
    ls_monitor_unlock(&exchange->cluster->monitor);
    ls_log_shared(config->log, spoken, LS_LOG_INFO, "waiting in '%s' for %s since %.0f s", exchange->name, missing,
                  ls_seconds_since(exchange->started));
    ls_monitor_lock(&exchange->cluster->monitor);
}

/* An exchange that has come from all is complete, though one of them may have failed since: who is slow to look meets
 * its own error next, not the news of another's. */
static ls_status wait_for_all(struct exchange *exchange) {
    for (;;) {
        char missing[256];
        const struct ls_cluster *cluster = exchange->cluster;
        const struct ls_exchange_answer *answer = &cluster->exchanges.answer;
        if (cluster->end.refusal.status) return ls_fail(cluster->end.refusal.status, "%s", cluster->end.refusal.text);
        if (answer->sequence == exchange->sequence && answer->code) return ls_fail(answer->code, "%s", answer->message);
        int count = coordinates(exchange) ? describe_gathered(exchange, missing) : describe_answer(exchange, missing);
        if (!count && (!coordinates(exchange) || !find_other(exchange))) return LS_OK;
        ls_status status = exchange_obstacle(exchange);
        if (status) return status;
        int64_t tick = ls_now() + TICK;
        if (ls_now() >= exchange->deadline) return give_up_waiting(exchange, missing, count);
        tell_missing(exchange, missing, count);
        report_missing(exchange, missing);
        (void)ls_monitor_wait(&exchange->cluster->monitor, tick < exchange->deadline ? tick : exchange->deadline);
    }
}

static void take_shares(const struct exchange *exchange, struct ls_bytes own, struct ls_bytes *received) {
    struct ls_cluster *cluster = exchange->cluster;
    for (int i = 0; i < cluster->group.size; i++) {
        if (i == cluster->group.rank) {
            received[i] = own;
            continue;
        }
        struct ls_stored_share *share = ls_peer_take_share(ls_peer_member(cluster, i), exchange->sequence);
        received[i] = share->bytes;
        share->bytes = (struct ls_bytes){NULL, 0};
        ls_peer_share_free(share);
    }
}

static void take_answer(const struct exchange *exchange, struct ls_bytes own, struct ls_bytes *received) {
    struct ls_cluster *cluster = exchange->cluster;
    for (int i = 0; i < cluster->group.size; i++) received[i] = cluster->exchanges.answer.parts[i];
    memset(cluster->exchanges.answer.parts, 0, (size_t)cluster->group.size * sizeof(*received));
    ls_exchange_release(cluster);
    ls_free(own.data);
}

static void take_all(const struct exchange *exchange, struct ls_bytes own, struct ls_bytes *received) {
    if (coordinates(exchange))
        take_shares(exchange, own, received);
    else
        take_answer(exchange, own, received);
}

/* After a failed exchange there is no other: the peers would take a share that runs ahead for a broken protocol. */
static ls_status break_off(const struct exchange *exchange, ls_status status) {
    struct ls_cluster *cluster = exchange->cluster;
    if (coordinates(exchange)) say_no_answer(exchange, status);
    cluster->exchanges.broken = true;
    ls_abort_raise(cluster->config.abort, status, ls_error());
    return status;
}

static ls_status exchange_shares(struct exchange *exchange, struct ls_bytes own, struct ls_bytes *received) {
    struct ls_cluster *cluster = exchange->cluster;
    exchange->sequence = ++cluster->exchanges.begun;
    if (!coordinates(exchange))
        say_share(exchange, own);
    else if (strcmp(exchange->name, LS_EXIT_EXCHANGE) == 0)
        ls_exchange_note_exit(cluster, cluster->rank, own.data, own.size);
    ls_status status = wait_for_all(exchange);
    if (status) return break_off(exchange, status);
    take_all(exchange, own, received);
    status = coordinates(exchange) ? say_answer(exchange, received) : LS_OK;
    for (int i = 0; i < cluster->group.size && status; i++)
        if (i != cluster->group.rank) ls_free(received[i].data);
    return status ? break_off(exchange, status) : LS_OK;
}

ls_status ls_cluster_exchange(struct ls_cluster *cluster, const char *name, struct ls_bytes bytes, double timeout,
                              struct ls_bytes *received) {
    ls_status status = check_share(name, bytes);
    if (status) return status;
    struct ls_bytes own = {ls_alloc(bytes.size), bytes.size};
    if (!own.data) return ls_fail_memory("an exchange", bytes.size);
    if (bytes.size) memcpy(own.data, bytes.data, bytes.size);
    if (timeout <= 0) timeout = cluster->config.settings->collective_timeout;
    struct exchange exchange = {.cluster = cluster,
                                .name = name,
                                .timeout = timeout,
                                .started = ls_now(),
                                .deadline = ls_deadline_in(timeout),
                                .next_report = ls_deadline_in(cluster->config.settings->report_interval),
                                .next_word = ls_deadline_in(cluster->config.settings->report_interval / 2)};
    int64_t before = ls_activity_wait(cluster->config.activity, exchange.started);
    ls_monitor_lock(&cluster->monitor);
    status =
        cluster->exchanges.broken ? ls_abort_status(cluster->config.abort) : exchange_shares(&exchange, own, received);
    ls_monitor_unlock(&cluster->monitor);
    (void)ls_activity_wait(cluster->config.activity, before);
    if (status) ls_free(own.data);
    return status;
}
