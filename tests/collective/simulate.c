/* Schedules as a whole cluster would run them. Bytes that are sent lie in the sender's store, at its place for the
 * receiver, one stream for each. An action moves as far as its gates allow; without a seed only as a whole, so that the
 * step at which it ends is known. */
#include "collective/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "collective/schedule/fold.h"
#include "collective/schedule/schedules.h"
#include "bench/oracle.h"

/* A fault ends the program: bench/scale simulates outside of Check. */
#define MUST(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (condition) break;                                                                                          \
        (void)fprintf(stderr, __VA_ARGS__);                                                                            \
        (void)fputc('\n', stderr);                                                                                     \
        abort();                                                                                                       \
    } while (0)

/* One direction between two ranks. */
struct stream {
    size_t start;       /* in the sender's store */
    size_t sent, taken; /* bytes */
    int sending;        /* the sender's action whose bytes are sent next; -1: none */
    int taking;         /* the sender's action whose bytes are taken next */
    size_t taking_done; /* bytes taken of it */
};

struct sim_rank {
    struct ls_schedule schedule;
    struct ls_reduction reduction;
    const void **inputs;
    void **outputs, **targets;
    unsigned char *store;
    struct stream *to;    /* [size] */
    int *receiving;       /* [size] actions; -1: none */
    int *peers;           /* those with which it has to do */
    int peer_count, left; /* actions that are not done */
    int *steps;           /* [actions] at which each is complete */
};

struct sim {
    const struct simulation *call;
    struct sim_rank *ranks;
    struct ls_hosts hosts;
    int *first;
    unsigned char **leaves, **results; /* [leaves] each an array */
    size_t bytes;                      /* of an array */
    uint64_t drawn;
};

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    MUST(memory, "no memory for %zu of %zu bytes", count, size);
    return memory;
}

/* ---- the reduction as each rank sees it ---- */

static void open_sim(struct sim *sim, const struct simulation *call) {
    *sim = (struct sim){.call = call, .bytes = call->count * ls_dtype_size(call->dtype)};
    sim->first = allocate((size_t)call->size + 1, sizeof(int));
    for (int i = 0; i <= call->size; i++) sim->first[i] = call->first ? call->first[i] : i;
    MUST(!ls_hosts_init(&sim->hosts, call->size, call->lowest), "%s", ls_error());
    sim->ranks = allocate((size_t)call->size, sizeof(*sim->ranks));
    sim->leaves = allocate((size_t)sim->first[call->size], sizeof(*sim->leaves));
    sim->results = allocate((size_t)sim->first[call->size], sizeof(*sim->results));
}

static void close_sim(struct sim *sim) {
    free(sim->first);
    free(sim->ranks);
    free(sim->leaves);
    free(sim->results);
    ls_hosts_free(&sim->hosts);
}

/* All outputs of the rank's host, the own ones first. */
static int list_targets(const struct sim *sim, int rank, void **targets) {
    const struct ls_hosts *hosts = &sim->hosts;
    int host = hosts->host[rank], members = ls_hosts_members(hosts, host), count = 0;
    for (int i = 0; i < members; i++) {
        int member = hosts->members[hosts->start[host] + (hosts->index[rank] + i) % members];
        for (int leaf = sim->first[member]; leaf < sim->first[member + 1]; leaf++)
            targets[count++] = sim->results[leaf];
    }
    return count;
}

static void describe_rank(struct sim *sim, int index) {
    const struct simulation *call = sim->call;
    struct sim_rank *rank = &sim->ranks[index];
    int low = sim->first[index], leaves = sim->first[call->size];
    rank->inputs = allocate((size_t)leaves, sizeof(*rank->inputs));
    for (int i = low; i < sim->first[index + 1]; i++) rank->inputs[i - low] = sim->leaves[i];
    rank->reduction = (struct ls_reduction){.rank = index,
                                            .size = call->size,
                                            .element = ls_dtype_size(call->dtype),
                                            .count = call->count,
                                            .divide = call->op == LS_MEAN ? leaves : 0,
                                            .first = sim->first,
                                            .inputs = rank->inputs,
                                            .outputs = (void *const *)(sim->results + low),
                                            .hosts = &sim->hosts};
    if (!call->lowest) return;
    rank->targets = allocate((size_t)leaves, sizeof(*rank->targets));
    rank->reduction.leaves = (const void *const *)sim->leaves;
    rank->reduction.targets = rank->targets;
    rank->reduction.target_count = list_targets(sim, index, rank->targets);
}

static void lay_out(struct sim *sim, int index, struct ls_schedule *schedule) {
    struct sim_rank *rank = &sim->ranks[index];
    describe_rank(sim, index);
    MUST(sim->call->algorithm != LS_ALGORITHM_HALVING || ls_halving_fits(&rank->reduction), "halving does not fit");
    if (sim->call->count) ls_algorithm_schedule(sim->call->algorithm, schedule, &rank->reduction);
    MUST(!schedule->out_of_memory, "no memory for a schedule");
}

static void forget_rank(struct sim_rank *rank) {
    free(rank->inputs);
    free(rank->targets);
}

/* ---- counting ---- */

static void keep_most(size_t *most, size_t value) {
    if (value > *most) *most = value;
}

static void keep_most_of(int *most, int value) {
    if (value > *most) *most = value;
}

static void count_rank(const struct ls_schedule *schedule, struct simulation_cost *cost) {
    size_t sent = 0, received = 0, scratch = 0;
    int messages = 0, peers = 0;
    for (int i = 0; i < schedule->size; i++) {
        sent += schedule->sends[i].bytes;
        received += schedule->receives[i].bytes;
        peers += schedule->sends[i].bytes || schedule->receives[i].bytes;
        keep_most(&cost->link, schedule->sends[i].bytes);
    }
    for (size_t i = 0; i < schedule->action_count; i++) messages += schedule->actions[i].kind == LS_ACTION_SEND;
    for (const struct ls_scratch *piece = schedule->scratch; piece; piece = piece->next) scratch += piece->used;
    cost->total += sent;
    keep_most(&cost->sent, sent);
    keep_most(&cost->received, received);
    keep_most(&cost->scratch, scratch);
    keep_most_of(&cost->messages, messages);
    keep_most_of(&cost->peers, peers);
    keep_most_of(&cost->actions, (int)schedule->action_count);
}

void simulation_count(const struct simulation *simulation, struct simulation_cost *cost) {
    struct sim sim;
    struct ls_schedule schedule;
    open_sim(&sim, simulation);
    unsigned char *memory = allocate(sim.bytes, 1); /* nothing is moved: one array for all */
    for (int i = 0; i < sim.first[simulation->size]; i++) sim.leaves[i] = sim.results[i] = memory;
    MUST(!ls_schedule_init(&schedule, simulation->size), "%s", ls_error());
    *cost = (struct simulation_cost){0};
    for (int i = 0; i < simulation->size; i++) {
        ls_schedule_reset(&schedule, 1);
        lay_out(&sim, i, &schedule);
        count_rank(&schedule, cost);
        forget_rank(&sim.ranks[i]);
    }
    ls_schedule_free(&schedule);
    free(memory);
    close_sim(&sim);
}

/* ---- moving ---- */

static size_t draw(struct sim *sim, size_t below) {
    return (size_t)(ls_random_bits(sim->call->seed, 7, sim->drawn++) % below);
}

/* The number of bytes of an action that may move, of at most available. Without a seed all that is left or none. */
static size_t allowed(struct sim *sim, const struct sim_rank *rank, const struct ls_action *action, size_t available) {
    size_t limit = action->size, unit = 1;
    for (int i = 0; i < action->gate_count; i++) {
        const struct ls_action_gate *gate = &rank->schedule.gates[action->gates + i];
        size_t done = rank->schedule.actions[gate->action].done;
        done = done > gate->offset ? done - gate->offset : 0;
        if (done < limit) limit = done;
    }
    if (limit - action->done < available) available = limit - action->done;
    if (!sim->call->seed) return available == action->size ? available : 0;
    if (action->kind == LS_ACTION_FOLD || action->kind == LS_ACTION_RECEIVE_ADD) unit = ls_dtype_size(sim->call->dtype);
    if (!available || !draw(sim, 3)) return 0;
    size_t bytes = 1 + draw(sim, available);
    return bytes - bytes % unit;
}

/* Notes what moved, and the step at which an action is complete: that of the last of its gates, or later. */
static void moved(struct sim_rank *rank, int index, size_t bytes, int arrived) {
    struct ls_action *action = &rank->schedule.actions[index];
    int step = arrived;
    for (int i = 0; i < action->gate_count; i++)
        keep_most_of(&step, rank->steps[rank->schedule.gates[action->gates + i].action]);
    rank->steps[index] = step;
    action->done += bytes;
    if (action->done == action->size) rank->left--;
}

static bool send_to(struct sim *sim, struct sim_rank *rank, int peer) {
    struct stream *stream = &rank->to[peer];
    bool any = false;
    while (stream->sending >= 0) {
        struct ls_action *action = &rank->schedule.actions[stream->sending];
        size_t bytes = allowed(sim, rank, action, action->size);
        if (!bytes) break;
        memcpy(rank->store + stream->start + stream->sent, action->from + action->done, bytes);
        stream->sent += bytes;
        moved(rank, stream->sending, bytes, 0);
        if (action->done == action->size) stream->sending = action->next;
        any = true;
    }
    return any;
}

/* Takes bytes off a stream; the step at which the last of them has come. */
static int take(const struct sim_rank *sender, struct stream *stream, size_t bytes) {
    int step = 0;
    stream->taken += bytes;
    while (bytes) {
        const struct ls_action *action = &sender->schedule.actions[stream->taking];
        size_t part = action->size - stream->taking_done;
        if (part > bytes) part = bytes;
        keep_most_of(&step, sender->steps[stream->taking] + 1);
        stream->taking_done += part;
        bytes -= part;
        if (stream->taking_done < action->size) continue;
        stream->taking = action->next;
        stream->taking_done = 0;
    }
    return step;
}

static void divide(const struct sim *sim, const struct ls_action *action, size_t bytes) {
    if (action->divide)
        ls_reduce_divide(sim->call->dtype, action->to + action->done, bytes / ls_dtype_size(sim->call->dtype),
                         action->divide);
}

static void receive(const struct sim *sim, const struct ls_action *action, const unsigned char *data, size_t bytes) {
    if (action->kind == LS_ACTION_RECEIVE) {
        memcpy(action->to + action->done, data, bytes);
        return;
    }
    ls_reduce_combine(sim->call->op, sim->call->dtype)(action->to + action->done, data, action->from + action->done,
                                                       bytes / ls_dtype_size(sim->call->dtype));
    divide(sim, action, bytes);
}

static bool receive_from(struct sim *sim, int index, int peer) {
    struct sim_rank *rank = &sim->ranks[index], *sender = &sim->ranks[peer];
    struct stream *stream = &sender->to[index];
    bool any = false;
    while (rank->receiving[peer] >= 0) {
        int at = rank->receiving[peer];
        const struct ls_action *action = &rank->schedule.actions[at];
        size_t bytes = allowed(sim, rank, action, stream->sent - stream->taken);
        if (!bytes) break;
        receive(sim, action, sender->store + stream->start + stream->taken, bytes);
        moved(rank, at, bytes, take(sender, stream, bytes));
        if (action->done == action->size) rank->receiving[peer] = action->next;
        any = true;
    }
    return any;
}

static bool compute(struct sim *sim, struct sim_rank *rank) {
    const struct ls_schedule *schedule = &rank->schedule;
    bool any = false;
    for (int i = schedule->compute.head; i >= 0; i = schedule->actions[i].next) {
        const struct ls_action *action = &schedule->actions[i];
        size_t bytes = action->done < action->size ? allowed(sim, rank, action, action->size) : 0;
        if (!bytes) continue;
        if (action->kind == LS_ACTION_FOLD) {
            struct ls_fold fold = {.combine = ls_reduce_combine(sim->call->op, sim->call->dtype),
                                   .element = ls_dtype_size(sim->call->dtype),
                                   .n = schedule->leaves,
                                   .count = action->source_count,
                                   .data = schedule->sources + action->sources,
                                   .covers = schedule->covers + action->sources};
            ls_fold_range(&fold, action->to + action->done, action->done, bytes);
            divide(sim, action, bytes);
        } else {
            memcpy(action->to + action->done, action->from + action->done, bytes);
        }
        moved(rank, i, bytes, 0);
        any = true;
    }
    return any;
}

static bool visit(struct sim *sim, int index) {
    struct sim_rank *rank = &sim->ranks[index];
    bool any = false;
    if (!rank->left) return false;
    for (int i = 0; i < rank->peer_count; i++) {
        any |= send_to(sim, rank, rank->peers[i]);
        any |= receive_from(sim, index, rank->peers[i]);
    }
    return compute(sim, rank) || any;
}

/* Until nothing moves. With a seed something may have been held back by chance: a few visits in vain are allowed. */
static void run(struct sim *sim) {
    enum { IN_VAIN = 200 };
    for (int vain = 0; vain < (sim->call->seed ? IN_VAIN : 1);) {
        bool any = false;
        for (int i = 0; i < sim->call->size; i++)
            any |= visit(sim, sim->call->seed ? (int)draw(sim, (size_t)sim->call->size) : i);
        vain = any ? 0 : vain + 1;
    }
}

/* ---- the whole ---- */

static void make_arrays(struct sim *sim) {
    const struct simulation *call = sim->call;
    for (int i = 0; i < sim->first[call->size]; i++) {
        sim->leaves[i] = allocate(sim->bytes, 1);
        sim->results[i] = call->in_place ? sim->leaves[i] : allocate(sim->bytes, 1);
        oracle_fill(call->dtype, sim->leaves[i], call->count, (uint64_t)i * 8 + (uint64_t)call->dtype);
    }
}

static void start_rank(struct sim *sim, int index) {
    struct sim_rank *rank = &sim->ranks[index];
    size_t size = (size_t)sim->call->size, at = 0;
    MUST(!ls_schedule_init(&rank->schedule, sim->call->size), "%s", ls_error());
    ls_schedule_reset(&rank->schedule, 1);
    lay_out(sim, index, &rank->schedule);
    const struct ls_schedule *schedule = &rank->schedule;
    rank->to = allocate(size, sizeof(*rank->to));
    rank->receiving = allocate(size, sizeof(int));
    rank->peers = allocate(size, sizeof(int));
    rank->steps = allocate(schedule->action_count, sizeof(int));
    rank->left = (int)schedule->action_count;
    for (int i = 0; i < sim->call->size; i++) {
        int peer = (index + i) % sim->call->size, head = schedule->sends[peer].head;
        rank->to[peer] = (struct stream){.start = at, .sending = head, .taking = head};
        rank->receiving[peer] = schedule->receives[peer].head;
        if (schedule->sends[peer].bytes || schedule->receives[peer].bytes) rank->peers[rank->peer_count++] = peer;
        at += schedule->sends[peer].bytes;
    }
    rank->store = allocate(at, 1);
}

static void end_rank(struct sim *sim, int index, struct simulation_cost *cost) {
    struct sim_rank *rank = &sim->ranks[index];
    MUST(!rank->left, "rank %d of %d: %d of %zu actions never ended", index, sim->call->size, rank->left,
         rank->schedule.action_count);
    for (int peer = 0; peer < sim->call->size; peer++)
        MUST(rank->schedule.sends[peer].bytes == sim->ranks[peer].schedule.receives[index].bytes,
             "rank %d sends %zu bytes to rank %d, which does not expect them", index, rank->schedule.sends[peer].bytes,
             peer);
    count_rank(&rank->schedule, cost);
    for (size_t i = 0; i < rank->schedule.action_count; i++) keep_most_of(&cost->steps, rank->steps[i]);
}

static void verify(const struct sim *sim, const unsigned char *expected) {
    const struct simulation *call = sim->call;
    for (int i = 0; i < sim->first[call->size]; i++) {
        size_t at = oracle_compare(call->dtype, expected, sim->results[i], call->count);
        MUST(at == call->count, "%s, %d workers, %zu of %s, in place %d, seed %llu: output %d differs at %zu",
             ls_algorithm_info(call->algorithm)->name, call->size, call->count, ls_dtype_name(call->dtype),
             call->in_place, (unsigned long long)call->seed, i, at);
    }
}

static void free_rank(struct sim_rank *rank) {
    ls_schedule_free(&rank->schedule);
    forget_rank(rank);
    free(rank->store);
    free(rank->to);
    free(rank->receiving);
    free(rank->peers);
    free(rank->steps);
}

void simulation_run(const struct simulation *simulation, struct simulation_cost *cost) {
    struct sim sim;
    open_sim(&sim, simulation);
    make_arrays(&sim);
    unsigned char *expected = allocate(sim.bytes, 1);
    struct oracle oracle = {simulation->algorithm == LS_ALGORITHM_RING ? LS_RING : LS_AUTO,
                            simulation->op,
                            simulation->dtype,
                            simulation->count,
                            simulation->size,
                            sim.first};
    oracle_all_reduce(&oracle, sim.leaves, expected);
    for (int i = 0; i < simulation->size; i++) start_rank(&sim, i);
    run(&sim);
    *cost = (struct simulation_cost){0};
    for (int i = 0; i < simulation->size; i++) end_rank(&sim, i, cost);
    verify(&sim, expected);
    for (int i = 0; i < simulation->size; i++) free_rank(&sim.ranks[i]);
    for (int i = 0; i < sim.first[simulation->size]; i++) {
        if (!simulation->in_place) free(sim.results[i]);
        free(sim.leaves[i]);
    }
    free(expected);
    close_sim(&sim);
}
