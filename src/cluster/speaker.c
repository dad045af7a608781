/* The streams that this worker carries for others: a list of routes. A route is opened by the first message from the
 * worker that dials. That message waits here while this worker has no stream of its own to the other end. It is the
 * only one: who dials says no more before it is answered. */
#include "cluster/speaker.h"

#include <string.h>

#include "base/memory.h"
#include "cluster/carried.h"

#define ROUTES_MOST 4096 /* at a time */

struct ls_route {
    struct ls_route *next;
    int from, to; /* ranks: who has dialled it, and whom */
    uint64_t number;
    void *first; /* the message that waits until this worker is connected to `to`; NULL: it is open */
    size_t size;
};

bool ls_speaker_may_carry(const struct ls_cluster *cluster, const struct ls_peer *carrier, const struct ls_peer *peer) {
    const struct ls_peer *own = cluster->peers[cluster->rank];
    bool beside = carrier->local || strcmp(carrier->task->host, peer->task->host) == 0;
    return beside && carrier != own && carrier != peer && !peer->local;
}

/* A stream of this worker's own that can carry. */
static struct ls_control_stream *own_stream(const struct ls_peer *peer, bool incoming) {
    struct ls_control_stream *stream = incoming ? peer->in : peer->accepted ? peer->out : NULL;
    return stream && stream->raw ? stream : NULL;
}

static void pass(struct ls_cluster *cluster, const struct ls_carry *carry, bool forward) {
    const struct ls_peer *next = cluster->peers[forward ? carry->to : carry->from];
    ls_carried_say(own_stream(next, !forward), carry);
}

static struct ls_route *find_route(const struct ls_cluster *cluster, const struct ls_carry *carry) {
    struct ls_route *route = cluster->net.routes;
    while (route && (route->from != carry->from || route->to != carry->to || route->number != carry->number))
        route = route->next;
    return route;
}

static int count_routes(const struct ls_cluster *cluster) {
    int count = 0;
    for (const struct ls_route *route = cluster->net.routes; route; route = route->next) count++;
    return count;
}

static void free_route(struct ls_route *route) {
    ls_free(route->first);
    ls_free(route);
}

static void remove_route(struct ls_cluster *cluster, struct ls_route *route) {
    struct ls_route **at = &cluster->net.routes;
    while (*at != route) at = &(*at)->next;
    *at = route->next;
    ls_carried_count(cluster->peers[route->from], true, -1);
    ls_carried_count(cluster->peers[route->to], false, -1);
    free_route(route);
}

/* Ends a route towards one of its ends. */
static void say_end(struct ls_cluster *cluster, const struct ls_route *route, bool forward, bool by_kernel,
                    const char *reason) {
    struct ls_carry end = {.kind = LS_CARRY_END,
                           .from = route->from,
                           .to = route->to,
                           .number = route->number,
                           .reason = reason,
                           .by_kernel = by_kernel};
    if (!forward || !route->first) pass(cluster, &end, forward);
}

static void open_route(struct ls_cluster *cluster, struct ls_route *route) {
    struct ls_carry open = {.kind = LS_CARRY_OPEN,
                            .from = route->from,
                            .to = route->to,
                            .number = route->number,
                            .reason = "",
                            .data = route->first,
                            .size = route->size};
    pass(cluster, &open, true);
    ls_free(ls_steal(route->first));
}

static bool add_route(struct ls_cluster *cluster, const struct ls_carry *carry) {
    struct ls_route *route = ls_alloc(sizeof(*route));
    void *first = ls_alloc(carry->size);
    if (!route || !first) {
        ls_free(route);
        ls_free(first);
        return false;
    }
    memcpy(first, carry->data, carry->size);
    *route = (struct ls_route){cluster->net.routes, carry->from, carry->to, carry->number, first, carry->size};
    cluster->net.routes = route;
    ls_carried_count(cluster->peers[carry->from], true, 1);
    ls_carried_count(cluster->peers[carry->to], false, 1);
    if (own_stream(cluster->peers[carry->to], false)) open_route(cluster, route);
    return true;
}

/* Refuses what came over a stream: its other end hears so. */
static bool refuse_carry(struct ls_cluster *cluster, const struct ls_carry *carry, bool forward, const char *reason) {
    struct ls_carry end = {
        .kind = LS_CARRY_END, .from = carry->from, .to = carry->to, .number = carry->number, .reason = reason};
    if (carry->kind != LS_CARRY_END) pass(cluster, &end, !forward);
    return true;
}

/* The first message of a stream has come. */
static bool begin_route(struct ls_cluster *cluster, const struct ls_carry *carry) {
    const struct ls_peer *to = cluster->peers[carry->to];
    if (find_route(cluster, carry)) return false;
    if (!cluster->star.shared) return refuse_carry(cluster, carry, true, "LOCKSTEP_HOST_STREAMS is off there");
    if (count_routes(cluster) >= ROUTES_MOST) return refuse_carry(cluster, carry, true, "it carries too many streams");
    if (ls_stream_is_carried(to->out)) return refuse_carry(cluster, carry, true, "it is itself carried");
    if (!add_route(cluster, carry)) return refuse_carry(cluster, carry, true, "it has no memory left");
    return true;
}

bool ls_speaker_receive(struct ls_cluster *cluster, const struct ls_control_stream *stream,
                        const struct ls_carry *carry) {
    bool forward = ls_stream_incoming(stream);
    const struct ls_peer *near = stream->user, *far = cluster->peers[forward ? carry->to : carry->from];
    if (near->rank != (forward ? carry->from : carry->to) || near == far || near->local == far->local) return false;
    if (carry->kind == LS_CARRY_OPEN) return forward && begin_route(cluster, carry);
    if (carry->kind == LS_CARRY_FINISH && !forward) return false;
    struct ls_route *route = find_route(cluster, carry);
    if (!route) return refuse_carry(cluster, carry, forward, "it is not known any more");
    if (forward && route->first) { /* it is given up before it was opened */
        remove_route(cluster, route);
        return refuse_carry(cluster, carry, true, "it was not opened yet");
    }
    pass(cluster, carry, forward);
    if (carry->kind == LS_CARRY_END) remove_route(cluster, route);
    return true;
}

void ls_speaker_reached(struct ls_cluster *cluster, const struct ls_peer *peer) {
    for (struct ls_route *route = cluster->net.routes; route; route = route->next)
        if (route->to == peer->rank && route->first && own_stream(peer, false)) open_route(cluster, route);
}

void ls_speaker_strand(struct ls_cluster *cluster, const struct ls_peer *peer, bool incoming, bool by_kernel) {
    struct ls_route *next;
    for (struct ls_route *route = cluster->net.routes; route; route = next) {
        next = route->next;
        if ((incoming ? route->from : route->to) != peer->rank || (!incoming && route->first)) continue;
        say_end(cluster, route, incoming, by_kernel, "its connection was closed");
        remove_route(cluster, route);
    }
}

void ls_speaker_lose(struct ls_cluster *cluster, const struct ls_peer *peer, const char *how) {
    struct ls_route *next;
    for (struct ls_route *route = cluster->net.routes; route; route = next) {
        next = route->next;
        bool dialled = route->to == peer->rank;
        if (!dialled && route->from != peer->rank) continue;
        say_end(cluster, route, !dialled, false, how);
        remove_route(cluster, route);
    }
}

void ls_speaker_release(struct ls_cluster *cluster) {
    while (cluster->net.routes) {
        struct ls_route *route = cluster->net.routes;
        cluster->net.routes = route->next;
        free_route(route);
    }
}
