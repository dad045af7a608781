/* Direct exchange between hosts (without shared memory every rank is a host). The vector is cut into one block a host,
 * and each of those into one block a rank of the host. The rank of a block is its owner.
 *  - Contribute: for the block of owner every other host sends its parts, the maximal subtrees that its leaves make up.
 *    A single leaf is sent from where it lies; more leaves are folded first.
 *  - Finish: the owner folds its own parts and the parts received along the tree, and sends the result back to every
 *    host.
 * On each host one rank, the delegate, exchanges with a given owner, so that all ranks use the wire, and only the
 * delegate reads and writes the block in the host's memory. In the one-step form the first rank of every host owns the
 * whole vector for its host. With compression the owner rounds its own parts too, and every host rounds the result, so
 * both forms give the same bits. A parameter server owns a block too. It has no leaf, and keeps no result. It is the
 * reduce-scatter by pairwise exchange of Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
 * operations in MPICH", with all n - 1 messages under way at once, and an all-gather after it. It sends as few bytes as
 * the ring, in 2 steps in place of 2 (n - 1), and its owners may add in any order: they take the tree's. */
#include "collective/schedule/schedules.h"

#include <stdlib.h>

#include "collective/schedule/wire.h"

#define STRIPE 64                  /* bytes: of whole elements of every type */
#define PACED  ((size_t)1 << 20)   /* bytes of a block from which on its sends are paced */
#define AHEAD  ((size_t)384 << 10) /* bytes that sends to workers may be before a server's result */
#define WINDOW ((size_t)1 << 20)   /* sends to a server likewise, at the least */

enum { PIECES = 32, WINDOWS = 16 /* of a block: a call has at least so many round trips */ };
/* A piece waits for a result that is at least half a window behind it. Two ends each hold back less than a grain of 64
 * KiB in front of a fold, of a send and of a sleeper; the piece itself goes from a grain on. */
_Static_assert(PIECES >= 2 * WINDOWS && WINDOW / 2 > 5 * ((size_t)64 << 10), "no piece waits for what waits for it");

struct source {
    struct ls_subtree covers;
    struct ls_values values;
};
struct direct {
    struct ls_schedule *schedule;
    const struct ls_reduction *reduction;
    const struct ls_hosts *hosts;
    int rank, host;
    bool one_step;
    int pace; /* the receive from a server by which sends to workers are paced; -1: none */
    size_t pace_size;
    int *part_start; /* [hosts + 1]: host h gives parts [part_start[h], part_start[h + 1]) */
    struct ls_subtree *parts;
    struct source *sources; /* of the own block */
    int source_count;
};

/* Units of STRIPE bytes before a rank's block, where k servers help n workers. Over links of one speed all ranks are
 * done at once if a server owns 2 (n - 1) parts where a worker owns n - k, of n * n + k n - 2 k in all (Jiang et al.
 * 2020, "A unified architecture for accelerating distributed DNN training"). With k >= n servers own everything. */
static size_t units_before(const struct ls_reduction *reduction, size_t units, int rank) {
    size_t k = (size_t)reduction->servers, n = (size_t)reduction->size - k, at = (size_t)rank;
    size_t worker = n > k ? n - k : 0, server = n > k ? 2 * (n - 1) : 1;
    size_t before = at <= n ? at * worker : n * worker + (at - n) * server, all = n * worker + k * server;
    return units / all * before + units % all * before / all;
}

static struct ls_stripe stripe_of(const struct ls_reduction *reduction, int rank) {
    size_t bytes = reduction->count * reduction->element, units = (bytes + STRIPE - 1) / STRIPE;
    int server = rank - (reduction->size - reduction->servers);
    if (reduction->owned) return server < 0 ? (struct ls_stripe){bytes, 0} : reduction->owned[server];
    size_t begin = units_before(reduction, units, rank) * STRIPE;
    size_t end = units_before(reduction, units, rank + 1) * STRIPE;
    if (end > bytes) end = bytes;
    return begin < end ? (struct ls_stripe){begin, end - begin} : (struct ls_stripe){bytes, 0};
}

/* Hosts own equal parts, and so do the ranks of a host of its part. */
static struct ls_stripe block_of(const struct direct *direct, int rank) {
    const struct ls_reduction *reduction = direct->reduction;
    const struct ls_hosts *hosts = direct->hosts;
    if (reduction->servers) return stripe_of(reduction, rank);
    if (direct->one_step) return (struct ls_stripe){0, reduction->count * reduction->element};
    int host = hosts->host[rank], members = ls_hosts_members(hosts, host);
    size_t begin = ls_block_start(reduction->count, hosts->count, host);
    size_t count = ls_block_count(reduction->count, hosts->count, host);
    return (struct ls_stripe){(begin + ls_block_start(count, members, hosts->index[rank])) * reduction->element,
                              ls_block_count(count, members, hosts->index[rank]) * reduction->element};
}

static bool is_server(const struct ls_reduction *reduction, int rank) {
    return rank >= reduction->size - reduction->servers;
}

/* ---- who gives what ---- */

/* The leaves of a host as ranges: members are ascending, so leaves of neighbouring ranks join to one range. A host
 * whose ranks are 0, 1 and 4 of one leaf each has the ranges [0, 2) and [4, 5), and sends two parts for every block. */
static int host_ranges(const struct ls_reduction *reduction, int host, struct ls_subtree *ranges) {
    const struct ls_hosts *hosts = reduction->hosts;
    const int *first = reduction->first;
    int count = 0;
    for (int i = hosts->start[host]; i < hosts->start[host + 1]; i++) {
        int rank = hosts->members[i];
        if (first[rank] == first[rank + 1]) continue;
        if (count && ranges[count - 1].high == first[rank])
            ranges[count - 1].high = first[rank + 1];
        else
            ranges[count++] = (struct ls_subtree){first[rank], first[rank + 1]};
    }
    return count;
}

int ls_direct_host_parts(const struct ls_reduction *reduction, int host, struct ls_subtree *ranges,
                         struct ls_subtree *parts, int capacity) {
    int count = host_ranges(reduction, host, ranges);
    return ls_tree_maximal(reduction->first[reduction->size], ranges, count, parts, capacity);
}

/* Writes the maximal subtrees of every host one after the other, as far as there is capacity; returns how many. */
static int list_parts(struct direct *direct, struct ls_subtree *ranges, int capacity) {
    int used = 0;
    for (int host = 0; host < direct->hosts->count; host++) {
        direct->part_start[host] = used;
        int room = used < capacity ? capacity - used : 0;
        used += ls_direct_host_parts(direct->reduction, host, ranges, room ? direct->parts + used : NULL, room);
    }
    direct->part_start[direct->hosts->count] = used;
    return used;
}

/* All hosts' parts are listed, since the owner must know the subtrees that it will receive: no frame carries them. The
 * first pass has no capacity and only counts. */
static bool begin_direct(struct direct *direct, struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    const struct ls_hosts *hosts = reduction->hosts;
    *direct = (struct direct){.schedule = schedule,
                              .reduction = reduction,
                              .hosts = hosts,
                              .rank = reduction->rank,
                              .host = hosts->host[reduction->rank],
                              .pace = -1};
    size_t size = (size_t)reduction->size;
    struct ls_subtree *ranges = ls_schedule_take(schedule, size * sizeof(*ranges));
    direct->part_start = ls_schedule_take(schedule, (size + 1) * sizeof(int));
    if (!ranges || !direct->part_start) return false;
    int count = list_parts(direct, ranges, 0);
    direct->parts = ls_schedule_take(schedule, (size_t)count * sizeof(*direct->parts));
    if (!direct->parts) return false;
    (void)list_parts(direct, ranges, count);
    return true;
}

bool ls_direct_serves(const struct ls_reduction *reduction, int owner, size_t *offset, size_t *size) {
    const struct ls_hosts *hosts = reduction->hosts;
    const struct direct direct = {.reduction = reduction, .hosts = hosts};
    struct ls_stripe block = block_of(&direct, owner);
    int host = hosts->host[reduction->rank];
    if (hosts->host[owner] == host && owner != reduction->rank) return false;
    if (hosts->host[owner] != host && ls_hosts_delegate(hosts, host, owner) != reduction->rank) return false;
    *offset = block.offset;
    *size = block.size;
    return true;
}

/* ---- towards the owners ---- */

static struct ls_values leaf_values(const struct direct *direct, int leaf, struct ls_stripe block) {
    return (struct ls_values){.at = ls_reduction_leaf(direct->reduction, leaf) + block.offset, .gate = -1};
}

/* This host's result of a part for a block, in the form in which other hosts receive it. One value is sent from where
 * it lies: a leaf, or a part that hierarchical.c has folded before (folded). The sum of more leaves is made once in
 * scratch. With compression one value goes through a fold as well, which only rounds it. */
static struct ls_values partial(struct direct *direct, struct ls_subtree part, struct ls_stripe block) {
    bool one = part.high - part.low == 1 || direct->reduction->folded;
    struct ls_values values;
    if (one && !direct->reduction->compression) return leaf_values(direct, part.low, block);
    int fold = ls_wire_fold(direct->schedule, direct->reduction, (struct ls_action){.size = block.size}, &values);
    for (int leaf = part.low; leaf < (one ? part.low + 1 : part.high); leaf++) {
        struct ls_values own = leaf_values(direct, leaf, block);
        ls_wire_source(direct->schedule, fold, one ? part : (struct ls_subtree){leaf, leaf + 1}, &own);
    }
    return values;
}

/* True if this rank exchanges with owner, a rank of another host. */
static bool speaks_with(const struct direct *direct, int owner) {
    const struct ls_hosts *hosts = direct->hosts;
    if (hosts->host[owner] == direct->host) return false;
    if (direct->one_step) return hosts->index[owner] == 0 && hosts->index[direct->rank] == 0;
    return ls_hosts_delegate(hosts, direct->host, owner) == direct->rank;
}

/* A send begins with byte from, and ends span bytes later, of the result of the server that sets the pace; it is about
 * ahead bytes before that. */
struct pacing {
    size_t from, span, ahead;
};

static void send_paced(const struct direct *direct, int peer, const struct ls_values *values, size_t size,
                       struct pacing pacing) {
    size_t piece = (size / PIECES + STRIPE - 1) / STRIPE * STRIPE;
    if (direct->pace < 0 || size < PACED || values->narrow) {
        (void)ls_wire_send(direct->schedule, peer, values, size);
        return;
    }
    for (size_t at = 0; at < size; at += piece) {
        size_t bytes = size - at < piece ? size - at : piece, last = direct->pace_size - bytes;
        size_t due = pacing.from + (size_t)((double)pacing.span * ((double)at / (double)size));
        if (due > last) due = last;
        int sent = ls_schedule_send(direct->schedule, peer, values->at + at, bytes);
        ls_schedule_gate_at(direct->schedule, sent, values->gate, at);
        if (due + bytes > pacing.ahead)
            ls_schedule_gate_at(direct->schedule, sent, direct->pace, due > pacing.ahead ? due - pacing.ahead : 0);
    }
}

/* Bytes for workers keep step with a server's result: the leaves with its first half, the results with the second.
 * Without that the kernel would give every stream the same part of a link: the few bytes for workers would go first,
 * and the links of the servers would idle meanwhile and be too narrow after it. */
static void send_to_worker(const struct direct *direct, int worker, const struct ls_values *values, size_t size,
                           bool results) {
    size_t half = direct->pace_size / 2;
    send_paced(direct, worker, values, size, (struct pacing){results ? half : 0, half, AHEAD});
}

/* A server's result is as far as the slowest worker's bytes. No worker is further ahead of it than a window: so those
 * that are slower get more of the server's link. A result needs all bytes of all parts but the last one: who sends
 * several does not wait for it. */
static void send_to_server(const struct direct *direct, int server, const struct ls_values *values, size_t size,
                           bool only) {
    size_t window = size / WINDOWS > WINDOW ? size / WINDOWS : WINDOW;
    send_paced(direct, server, values, size, (struct pacing){0, size, only ? window : size});
}

/* Sends the host's partials to the owner, a server or a worker. */
static void contribute_to(struct direct *direct, int owner) {
    int parts = direct->part_start[direct->host], end = direct->part_start[direct->host + 1];
    struct ls_stripe block = block_of(direct, owner);
    for (int i = parts; i < end; i++) {
        struct ls_values values = partial(direct, direct->parts[i], block);
        if (is_server(direct->reduction, owner))
            send_to_server(direct, owner, &values, block.size, end - parts == 1);
        else
            send_to_worker(direct, owner, &values, block.size, false);
    }
}

/* To each owner that this rank exchanges with, the next rank first. Rank r begins with rank r + 1 and not with rank 0.
 * So in no moment do all ranks send to one owner while the others idle. */
static void contribute(struct direct *direct, bool servers) {
    for (int step = 1; step < direct->hosts->size; step++) {
        int owner = (direct->rank + step) % direct->hosts->size;
        if (speaks_with(direct, owner) && is_server(direct->reduction, owner) == servers) contribute_to(direct, owner);
    }
}

/* The same when every host owns the whole vector: each partial is made once and sent to all hosts. sent receives the
 * sends: they must have gone before the result may overwrite their bytes. Returns their number. */
static int contribute_to_all(struct direct *direct, int *sent) {
    struct ls_stripe block = block_of(direct, direct->rank);
    int count = 0;
    for (int i = direct->part_start[direct->host]; i < direct->part_start[direct->host + 1]; i++) {
        if (direct->hosts->count == 1) break;
        struct ls_values values = partial(direct, direct->parts[i], block);
        for (int step = 1; step < direct->hosts->size; step++) {
            int owner = (direct->rank + step) % direct->hosts->size;
            if (speaks_with(direct, owner)) sent[count++] = ls_wire_send(direct->schedule, owner, &values, block.size);
        }
    }
    return count;
}

/* ---- the owner's part ---- */

static void append_source(struct direct *direct, struct ls_subtree covers, struct ls_values values) {
    direct->sources[direct->source_count++] = (struct source){covers, values};
}

/* Adds an own part: rounded as the other hosts receive it, or leaf by leaf. */
static void add_own_part(struct direct *direct, struct ls_stripe block, struct ls_subtree part) {
    if (direct->reduction->compression || direct->reduction->folded) {
        append_source(direct, part, partial(direct, part, block));
        return;
    }
    for (int leaf = part.low; leaf < part.high; leaf++)
        append_source(direct, (struct ls_subtree){leaf, leaf + 1}, leaf_values(direct, leaf, block));
}

/* Lists the sources of the own block: the own parts, and the parts that the other hosts send. */
static void list_sources(struct direct *direct, struct ls_stripe block) {
    const struct ls_hosts *hosts = direct->hosts;
    for (int host = 0; host < hosts->count; host++)
        for (int i = direct->part_start[host]; i < direct->part_start[host + 1]; i++) {
            if (host == direct->host) {
                add_own_part(direct, block, direct->parts[i]);
                continue;
            }
            int peer =
                direct->one_step ? hosts->members[hosts->start[host]] : ls_hosts_delegate(hosts, host, direct->rank);
            append_source(direct, direct->parts[i],
                          ls_wire_receive(direct->schedule, direct->reduction, peer, block.size,
                                          i + 1 == direct->part_start[host + 1]));
        }
}

static int by_leaf(const void *a, const void *b) {
    return ((const struct source *)a)->covers.low - ((const struct source *)b)->covers.low;
}

/* Folds the own block into the first place for the result; sent receives the values for the other hosts. The fold reads
 * its sources in leaf order. The sources were listed by host, and a host's leaves need not be neighbours, hence the
 * sort. The fold goes as far as the slowest of its gates: it adds the first bytes of all hosts while their later bytes
 * are under way. */
static int finish_block(struct direct *direct, struct ls_stripe block, struct ls_values *sent) {
    struct ls_schedule *schedule = direct->schedule;
    const struct ls_reduction *reduction = direct->reduction;
    size_t most = (size_t)reduction->first[reduction->size]; /* no more sources than leaves */
    *sent = (struct ls_values){.gate = -1};
    direct->sources = ls_schedule_take(schedule, most * sizeof(*direct->sources));
    if (!direct->sources) return -1;
    list_sources(direct, block);
    qsort(direct->sources, (size_t)direct->source_count, sizeof(*direct->sources), by_leaf);
    unsigned char *place = reduction->owned ? reduction->outputs[0] : NULL;
    if (!is_server(reduction, direct->rank)) place = ls_reduction_result(reduction) + block.offset;
    struct ls_action action = {.to = place, .size = block.size, .divide = reduction->divide};
    int fold = ls_wire_fold(schedule, reduction, action, sent);
    for (int i = 0; i < direct->source_count; i++)
        ls_wire_source(schedule, fold, direct->sources[i].covers, &direct->sources[i].values);
    return fold;
}

/* A result that stays with its server goes to those that keep a copy of it: outputs has the place for the own one, and
 * then those for the results of the servers before this one. */
static void copy_results(struct direct *direct, const struct ls_values *own) {
    const struct ls_reduction *reduction = direct->reduction;
    int servers = reduction->servers, workers = reduction->size - servers, server = direct->rank - workers, whole;
    for (int i = 1; i <= reduction->copies; i++) {
        int next = workers + (server + i) % servers, before = workers + (server + servers - i) % servers;
        (void)ls_wire_send(direct->schedule, next, own, stripe_of(reduction, direct->rank).size);
        struct ls_action result = {
            .peer = before, .to = reduction->outputs[i], .size = stripe_of(reduction, before).size};
        if (result.size) (void)ls_wire_receive_into(direct->schedule, reduction, result, &whole);
    }
}

/* The result of an owner into place. It may overwrite this host's leaves (a call in place) with no gate on their sends:
 * the owner can only have added bytes that have left here. */
static void receive_result(struct direct *direct, int owner) {
    struct ls_stripe block = block_of(direct, owner);
    struct ls_action result = {
        .peer = owner, .to = ls_reduction_result(direct->reduction) + block.offset, .size = block.size};
    int whole;
    (void)ls_wire_receive_into(direct->schedule, direct->reduction, result, &whole);
    ls_reduction_spread(direct->schedule, direct->reduction, block.offset, block.size, whole);
    if (!is_server(direct->reduction, owner)) return;
    direct->pace = whole;
    direct->pace_size = block.size;
}

/* With all servers, each in step with its own result. */
static void exchange_with_servers(struct direct *direct) {
    for (int step = 1; step < direct->hosts->size; step++) {
        int owner = (direct->rank + step) % direct->hosts->size;
        if (!speaks_with(direct, owner) || !is_server(direct->reduction, owner)) continue;
        receive_result(direct, owner);
        contribute_to(direct, owner);
    }
}

static void receive_results(struct direct *direct) {
    for (int step = 1; step < direct->hosts->size; step++) {
        int owner = (direct->rank + step) % direct->hosts->size;
        if (speaks_with(direct, owner) && !is_server(direct->reduction, owner)) receive_result(direct, owner);
    }
}

static void send_results(struct direct *direct, struct ls_stripe own, const struct ls_values *sent) {
    const struct ls_hosts *hosts = direct->hosts;
    for (int step = 1; step < hosts->count; step++) {
        int host = (direct->host + step) % hosts->count;
        if (is_server(direct->reduction, hosts->members[hosts->start[host]])) continue;
        send_to_worker(direct, ls_hosts_delegate(hosts, host, direct->rank), sent, own.size, true);
    }
}

void ls_direct_schedule(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    struct direct direct;
    if (!begin_direct(&direct, schedule, reduction)) return;
    struct ls_stripe own = block_of(&direct, direct.rank);
    bool serves = is_server(reduction, direct.rank);
    if (!serves) exchange_with_servers(&direct);
    contribute(&direct, false);
    struct ls_values sent;
    int fold = finish_block(&direct, own, &sent);
    if (!serves) ls_reduction_spread(schedule, reduction, own.offset, own.size, fold);
    send_results(&direct, own, &sent);
    if (!serves) receive_results(&direct);
}

void ls_direct_schedule_push(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    struct direct direct;
    struct ls_values own = {.gate = -1};
    if (!begin_direct(&direct, schedule, reduction)) return;
    contribute(&direct, true);
    if (!is_server(reduction, direct.rank)) return;
    struct ls_stripe block = block_of(&direct, direct.rank);
    if (block.size) (void)finish_block(&direct, block, &own);
    copy_results(&direct, &own);
}

/* Here the result is no proof that the own bytes have left: this rank makes it from bytes of the others alone. So the
 * fold is gated by every send of the leaves that it overwrites. The latency is one message, and the bytes are n - 1
 * times the vector; tuner.c and the rules of ONE_STEP keep it for small ones. */
void ls_direct_schedule_exchange(struct ls_schedule *schedule, const struct ls_reduction *reduction) {
    struct direct direct;
    if (!begin_direct(&direct, schedule, reduction)) return;
    direct.one_step = true;
    if (direct.hosts->index[direct.rank]) return;
    int parts = direct.part_start[direct.host + 1] - direct.part_start[direct.host];
    int *sent = ls_schedule_take(schedule, (size_t)parts * (size_t)direct.hosts->count * sizeof(*sent));
    if (!sent) return;
    struct ls_stripe all = block_of(&direct, direct.rank);
    int sent_count = contribute_to_all(&direct, sent);
    struct ls_values result;
    int fold = finish_block(&direct, all, &result);
    for (int i = 0; i < sent_count; i++) ls_schedule_gate(schedule, fold, sent[i]);
    ls_reduction_spread(schedule, reduction, 0, all.size, fold);
}
