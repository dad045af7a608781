/* Exchange: every member sends its bytes to every other on its own stream and waits for theirs. Exchanges are numbered;
 * the names only tell two workers that do different things. Agree is an exchange of fingerprints. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/lines.h"
#include "cluster/state.h"

#define TICK (100 * LS_MILLISECOND) /* between looks at the abort flag */

struct exchange {
    struct ls_cluster *cluster;
    const char *name;
    uint64_t sequence;
    double timeout;
    int64_t started, deadline, next_report;
};

static ls_status check(const char *name, struct ls_bytes bytes) {
    size_t length = strlen(name);
    if (!length || length > 255) return ls_fail(LS_INVALID_ARGUMENT, "an exchange's name has 1 to 255 bytes");
    if (bytes.size > LS_PAYLOAD_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "exchange '%s' of %zu bytes is above the limit of %u", name, bytes.size,
                       LS_PAYLOAD_MAX);
    return LS_OK;
}

static struct ls_peer *member_at(const struct ls_cluster *cluster, int index) {
    return &cluster->peers[cluster->members[index]];
}

static void send_to_all(const struct exchange *exchange, struct ls_bytes bytes) {
    struct ls_cluster *cluster = exchange->cluster;
    struct ls_message message = ls_cluster_message(cluster, LS_MESSAGE_SHARE);
    message.share = (struct ls_share){exchange->sequence, exchange->name, bytes.data, bytes.size};
    for (int i = 0; i < cluster->count; i++)
        if (i != cluster->place) ls_cluster_send(member_at(cluster, i)->out, &message);
}

/* A peer that does something else; NULL: none yet. */
static const struct ls_peer *find_other(const struct exchange *exchange) {
    const struct ls_cluster *cluster = exchange->cluster;
    for (int i = 0; i < cluster->count; i++) {
        if (i == cluster->place) continue;
        const struct ls_stored_share *share = ls_peer_find_share(member_at(cluster, i), exchange->sequence);
        if (share && strcmp(share->name, exchange->name) != 0) return member_at(cluster, i);
    }
    return NULL;
}

/* What makes it useless to wait, the root first: an abort, a peer that does something else or has gone. */
static ls_status obstacle(const struct exchange *exchange) {
    struct ls_cluster *cluster = exchange->cluster;
    if (ls_abort_raised(cluster->config.abort)) return ls_abort_status(cluster->config.abort);
    const struct ls_peer *other = find_other(exchange);
    if (other)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "workers do different things: '%s' on %s (rank %d), '%s' on %s (rank %d)", exchange->name,
                       cluster->peers[cluster->rank].name, cluster->rank,
                       ls_peer_find_share(other, exchange->sequence)->name, other->name, other->rank);
    for (int i = 0; i < cluster->count; i++) {
        const struct ls_peer *peer = member_at(cluster, i);
        if (i != cluster->place && peer->left && !ls_peer_find_share(peer, exchange->sequence))
            return ls_fail(LS_FAILED_PRECONDITION, "%s (rank %d) has finished and takes no part in '%s'", peer->name,
                           peer->rank, exchange->name);
    }
    return LS_OK;
}

/* The names of those whose share has not come; returns how many. */
static int describe_missing(const struct exchange *exchange, char text[256]) {
    const struct ls_cluster *cluster = exchange->cluster;
    size_t used = 0;
    int missing = 0;
    text[0] = 0;
    for (int i = 0; i < cluster->count; i++) {
        const struct ls_peer *peer = member_at(cluster, i);
        if (i == cluster->place || ls_peer_find_share(peer, exchange->sequence)) continue;
        missing++;
        if (used + sizeof(peer->name) + 16 < 256)
            used += (size_t)snprintf(text + used, 256 - used, "%s%s", used ? ", " : "", peer->name);
        else if (text[used ? used - 1 : 0] != '.')
            used += (size_t)snprintf(text + used, 256 - used, ", ...");
    }
    return missing;
}

static ls_status give_up(const struct exchange *exchange, const char *missing, int count) {
    return ls_fail(LS_DEADLINE_EXCEEDED, "'%s': %d of %d workers did not come within %g s: %s", exchange->name, count,
                   exchange->cluster->count, exchange->timeout, missing);
}

/* Says for whom it waits. The monitor is let go for the words. */
static void report(struct exchange *exchange, const char *missing) {
    const struct ls_cluster_config *config = &exchange->cluster->config;
    if (ls_now() < exchange->next_report) return;
    exchange->next_report = ls_deadline_in(config->settings->report_interval);
    ls_monitor_unlock(&exchange->cluster->monitor);
    ls_log_info(config->log, "waiting in '%s' for %s since %.0f s", exchange->name, missing,
                ls_seconds_since(exchange->started));
    ls_monitor_lock(&exchange->cluster->monitor);
}

/* What has come from all is complete, though one of them may have failed since: who is slow to look meets its own
 * error next, not the news of another's. */
static ls_status wait_for_all(struct exchange *exchange) {
    for (;;) {
        char missing[256];
        const struct ls_cluster *cluster = exchange->cluster;
        if (cluster->refusal) return ls_fail(cluster->refusal, "%s", cluster->refusal_text);
        int count = describe_missing(exchange, missing);
        if (!count && !find_other(exchange)) return LS_OK;
        ls_status status = obstacle(exchange);
        if (status) return status;
        int64_t tick = ls_now() + TICK;
        if (ls_now() >= exchange->deadline) return give_up(exchange, missing, count);
        report(exchange, missing);
        (void)ls_monitor_wait(&exchange->cluster->monitor, tick < exchange->deadline ? tick : exchange->deadline);
    }
}

static void take_all(const struct exchange *exchange, struct ls_bytes own, struct ls_bytes *received) {
    struct ls_cluster *cluster = exchange->cluster;
    for (int i = 0; i < cluster->count; i++) {
        if (i == cluster->place) {
            received[i] = own;
            continue;
        }
        struct ls_stored_share *share = ls_peer_take_share(member_at(cluster, i), exchange->sequence);
        received[i] = share->bytes;
        share->bytes = (struct ls_bytes){NULL, 0};
        ls_stored_share_free(share);
    }
}

/* After a failed exchange there is no other: the peers would take a share that runs ahead for a broken protocol. */
static ls_status run(struct exchange *exchange, struct ls_bytes bytes) {
    struct ls_cluster *cluster = exchange->cluster;
    exchange->sequence = ++cluster->sequence;
    send_to_all(exchange, bytes);
    ls_status status = wait_for_all(exchange);
    if (!status) return LS_OK;
    cluster->broken = true;
    ls_abort_raise(cluster->config.abort, status, ls_error());
    return status;
}

ls_status ls_cluster_exchange(struct ls_cluster *cluster, const char *name, struct ls_bytes bytes, double timeout,
                              struct ls_bytes *received) {
    ls_status status = check(name, bytes);
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
                                .next_report = ls_deadline_in(cluster->config.settings->report_interval)};
    ls_monitor_lock(&cluster->monitor);
    status = cluster->broken ? ls_abort_status(cluster->config.abort) : run(&exchange, bytes);
    if (!status) take_all(&exchange, own, received);
    ls_monitor_unlock(&cluster->monitor);
    if (status) ls_free(own.data);
    return status;
}

/* The same walk on every worker, so that all find the same first difference. */
static ls_status compare(const struct ls_cluster *cluster, const struct ls_bytes *texts) {
    struct ls_difference difference;
    const struct ls_peer *first = member_at(cluster, 0);
    for (int i = 1; i < cluster->count; i++) {
        const struct ls_peer *other = member_at(cluster, i);
        if (ls_lines_differ(texts[0].data, texts[i].data, &difference))
            return ls_fail(LS_INVALID_ARGUMENT,
                           "%s differs: '%s' on %s (rank %d), '%s' on %s (rank %d); start all workers alike",
                           difference.field, difference.first, first->name, first->rank, difference.second, other->name,
                           other->rank);
    }
    return LS_OK;
}

static void free_texts(const struct ls_cluster *cluster, struct ls_bytes *texts) {
    for (int i = 0; i < cluster->count; i++) {
        ls_free(texts[i].data);
        texts[i] = (struct ls_bytes){NULL, 0};
    }
}

/* Texts from the network end with a zero, or are given one at their last byte. */
static ls_status check_texts(const struct ls_cluster *cluster, const struct ls_bytes *texts) {
    for (int i = 0; i < cluster->count; i++)
        if (!texts[i].size || ((const char *)texts[i].data)[texts[i].size - 1])
            return ls_fail(LS_INVALID_ARGUMENT, "%s (rank %d) sent a fingerprint that is no text",
                           member_at(cluster, i)->name, member_at(cluster, i)->rank);
    return LS_OK;
}

/* After a difference nobody goes before all have seen it: otherwise one would hear of another's end first. */
static void let_all_see(struct ls_cluster *cluster, double timeout, struct ls_bytes *texts) {
    char message[LS_ERROR_SIZE];
    (void)snprintf(message, sizeof(message), "%s", ls_error());
    if (ls_cluster_exchange(cluster, "difference", (struct ls_bytes){NULL, 0}, timeout, texts) == LS_OK)
        free_texts(cluster, texts);
    (void)ls_fail(LS_INVALID_ARGUMENT, "%s", message);
}

ls_status ls_cluster_agree(struct ls_cluster *cluster, const char *name, const char *lines, double timeout) {
    union {
        const char *in;
        void *out;
    } text = {lines};
    LS_CLEANUP(ls_free_pointer) struct ls_bytes *texts = ls_alloc_array((size_t)cluster->count, sizeof(*texts));
    if (!texts) return ls_fail_memory("fingerprints", (size_t)cluster->count * sizeof(*texts));
    ls_status status =
        ls_cluster_exchange(cluster, name, (struct ls_bytes){text.out, strlen(lines) + 1}, timeout, texts);
    if (status) return status;
    status = check_texts(cluster, texts);
    if (!status) status = compare(cluster, texts);
    free_texts(cluster, texts);
    if (status) let_all_see(cluster, timeout, texts);
    return status;
}
