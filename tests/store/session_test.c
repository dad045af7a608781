/* Asynchronous training, with workers and servers as threads, against an oracle that follows the record of the order:
 * random variables, optimizers, workers, servers and copies, over generations that losses end. Each ticket is decided
 * once, every worker has the oracle's bits at the end, and a replay of the record has them too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "collective/world.h"
#include "device/device.h"
#include "property/draw.h"
#include "store/fleet.h"
#include "store/layout.h"
#include "store/session/session_record.h"
#include "store/session/session_worker.h"
#include "store/store.h"
#include "store/session/tickets.h"

enum { CASES = SANITIZED ? 6 : 14, MOST_PARTS = 4, MOST_WORKERS = 5, MOST_SERVERS = 4, MOST_TICKETS = 40 };
enum { STATISTICS = 5, NUMBERS = 2 };
enum { NEVER = -1, BEFORE_THE_SESSION = -2 }; /* is a worker lost */

struct trial {
    struct draw draw;
    struct ls_terms_model terms;
    struct ls_range ranges[MOST_PARTS];
    struct ls_blob_part parts[MOST_PARTS];
    struct ls_session session;
    int workers;
    size_t whole; /* variables and statistics */
    float *copies[MOST_WORKERS], *first;
    int64_t generation, position;                      /* position: the workers' step */
    bool taken;                                        /* servers have taken all */
    struct ls_shard_part parts_of[1 + LS_MAX_MOMENTS]; /* nothing is new */
    int fails[MOST_WORKERS]; /* the worker is lost after so many tickets, or NEVER, or BEFORE_THE_SESSION */
    char record[64];
    struct fleet fleet;
    struct ls_keeper *away; /* a server that a generation is without, and that comes back with what it had */
    bool replays;
};

static float *new_blob(size_t count) {
    float *blob = ls_alloc_aligned(count * sizeof(float));
    ck_assert_ptr_nonnull(blob);
    return blob;
}

static void draw_rule(struct trial *trial) {
    const ls_optimizer rules[] = {
        {LS_OPTIMIZER_SGD, 0.1F},
        {LS_OPTIMIZER_SGD, 0.1F, .momentum = 0.9F, .nesterov = true, .weight_decay = 0.01F},
        {LS_OPTIMIZER_ADAM, 0.01F, .beta_1 = 0.9F, .beta_2 = 0.999F, .epsilon = 1e-7F, .clipvalue = 0.5F},
        {LS_OPTIMIZER_RMSPROP, 0.01F, .momentum = 0.5F, .centered = true, .rho = 0.9F, .epsilon = 1e-7F}};
    static const int32_t kinds[] = {LS_OP_SGD, LS_OP_SGD, LS_OP_ADAM, LS_OP_RMSPROP};
    static const int moments[] = {0, 1, 2, 3};
    size_t which = draw_below(&trial->draw, 4);
    trial->session.step.rule = rules[which];
    trial->terms.kind = kinds[which];
    trial->terms.moments = moments[which];
}

static void draw_terms(struct trial *trial) {
    struct ls_terms_model *terms = &trial->terms;
    layout_draw(&trial->draw, MOST_PARTS, 5000, terms, trial->parts, trial->ranges);
    terms->model = 1;
    terms->asynchronous = true;
    trial->whole = terms->count + STATISTICS;
}

static void draw_session(struct trial *trial) {
    static const ls_on_stale rules[] = {LS_STALE_APPLY, LS_STALE_SCALE, LS_STALE_DROP};
    ls_on_stale rule = rules[draw_below(&trial->draw, 3)];
    draw_rule(trial);
    trial->session.model = 1;
    trial->session.tickets = 1 + (int64_t)draw_below(&trial->draw, MOST_TICKETS);
    trial->session.staleness = draw_once_in(&trial->draw, 2) ? -1 : (int64_t)draw_below(&trial->draw, 3);
    trial->session.on_stale = rule;
    trial->session.max_staleness = rule == LS_STALE_DROP ? 1 : 0;
    trial->session.statistics = STATISTICS;
    trial->session.numbers = NUMBERS;
    trial->terms.replicas = 1 + (int)draw_below(&trial->draw, 3);
}

static void draw_trial(struct trial *trial, uint64_t seed, uint64_t stream) {
    *trial = (struct trial){.draw = draw_from(seed, stream)};
    draw_terms(trial);
    draw_session(trial);
    trial->workers = 1 + (int)draw_below(&trial->draw, MOST_WORKERS);
    trial->first = new_blob(trial->whole);
    for (size_t v = 0; v < trial->terms.part_count; v++)
        for (size_t i = 0; i < trial->parts[v].count; i++)
            trial->first[trial->parts[v].offset + i] = (float)draw_below(&trial->draw, 2001) / 500 - 2;
    for (int i = 0; i < MOST_WORKERS; i++) {
        trial->copies[i] = new_blob(trial->whole);
        memcpy(trial->copies[i], trial->first, trial->whole * sizeof(float));
    }
    (void)snprintf(trial->record, sizeof(trial->record), "/tmp/lockstep-session-XXXXXX");
    int descriptor = mkstemp(trial->record);
    ck_assert_int_ge(descriptor, 0);
    (void)close(descriptor);
    size_t servers = 1 + draw_below(&trial->draw, MOST_SERVERS);
    while ((size_t)trial->fleet.count < servers) fleet_add(&trial->fleet);
}

static void free_trial(struct trial *trial) {
    fleet_end(&trial->fleet);
    ls_keeper_free(trial->away);
    for (int i = 0; i < MOST_WORKERS; i++) ls_free(trial->copies[i]);
    ls_free(trial->first);
    (void)unlink(trial->record);
}

/* ---- what a ticket computes ---- */

static float noise(int64_t ticket, size_t i) {
    uint64_t word = ((uint64_t)ticket * 1000003 + i) * UINT64_C(0x9E3779B97F4A7C15);
    return (float)(int)(word >> 54) / 512 - 1;
}

static float rate_of(int64_t ticket) {
    return 0.01F * (float)(1 + ticket % 3);
}

static void compute(const struct trial *trial, int64_t ticket, const float *variables, float *gradients) {
    for (size_t v = 0; v < trial->terms.part_count; v++)
        for (size_t i = trial->parts[v].offset; i < trial->parts[v].offset + trial->parts[v].count; i++)
            gradients[i] = 0.25F * variables[i] + noise(ticket, i);
    for (size_t i = trial->terms.count; i < trial->whole; i++) gradients[i] = noise(ticket, i);
}

/* ---- a worker ---- */

static ls_status train(struct rank *rank, struct ls_session_worker *worker) {
    struct trial *trial = rank->context;
    float *gradients = new_blob(trial->whole);
    ls_status status = LS_OK;
    for (int done = 0;; done++) {
        int64_t ticket;
        status = ls_session_worker_take(worker, &ticket);
        if (status || ticket == LS_NO_TICKET) break;
        compute(trial, ticket, trial->copies[rank->rank], gradients);
        const double numbers[NUMBERS] = {1, (double)ticket};
        if (done == trial->fails[rank->rank]) status = ls_fail(LS_UNAVAILABLE, "this worker is lost");
        if (!status) status = ls_session_worker_give(worker, rate_of(ticket), gradients, numbers, false);
        if (status) break;
    }
    ls_free(gradients);
    return status;
}

static ls_status work(struct rank *rank) {
    struct trial *trial = rank->context;
    struct ls_store *store = NULL;
    struct ls_session_worker *worker = NULL;
    const struct ls_store_config config = {.group = ls_group_assisted(rank->group),
                                           .terms = trial->terms,
                                           .generation = trial->generation,
                                           .version = trial->position,
                                           .parts = trial->taken ? trial->parts_of : NULL,
                                           .variables = trial->copies[rank->rank]};
    ls_status status = ls_store_open(&config, &store);
    if (!status && trial->fails[rank->rank] == BEFORE_THE_SESSION)
        status = ls_fail(LS_UNAVAILABLE, "this worker is lost");
    if (!status) {
        const struct ls_session_worker_config session = {ls_store_group(store), ls_store_terms(store), &trial->session,
                                                         trial->copies[rank->rank]};
        status = ls_session_worker_new(&session, &worker);
    }
    if (!status) status = train(rank, worker);
    if (!status) {
        int64_t ended;
        const struct ls_session_totals *totals = ls_session_worker_totals(worker, &ended);
        ck_assert_int_eq(ended, trial->session.tickets);
        ck_assert_int_eq(totals->applied + totals->dropped, trial->session.tickets);
        ck_assert_double_eq(totals->numbers[0], (double)trial->session.tickets);
        ck_assert_double_eq(totals->numbers[1], (double)(trial->session.tickets * (trial->session.tickets - 1) / 2));
        ck_assert(trial->session.on_stale == LS_STALE_DROP || !totals->dropped);
    }
    ls_session_worker_free(worker);
    ls_store_free(store);
    return status;
}

/* True: the session has come to its end. */
static bool run_generation(struct trial *trial) {
    struct world world;
    trial->generation++;
    for (int i = 0; i < trial->fleet.count; i++)
        ls_keeper_set_files(trial->fleet.keepers[i], trial->replays ? "" : trial->record,
                            trial->replays ? trial->record : "");
    fleet_begin(&trial->fleet, trial->generation);
    const struct world_options options = {.size = trial->workers,
                                          .servers = trial->fleet.count,
                                          .keeping = trial->fleet.keeping,
                                          .mail = true,
                                          .loses = true,
                                          .wire = (enum wire)draw_below(&trial->draw, WIRE_SHARED)};
    (void)printf("# generation %d: %d workers, %d servers%s;", (int)trial->generation, trial->workers,
                 trial->fleet.count, trial->away ? ", one away" : "");
    world_run(&options, work, trial, &world);
    bool whole = true;
    for (int i = 0; i < trial->workers; i++) {
        if (world.ranks[i].status) (void)printf(" %d: %s (%d);", i, world.ranks[i].error, trial->fails[i]);
        whole = whole && !world.ranks[i].status;
        ck_assert_msg(!world.ranks[i].status || world.ranks[i].status == LS_UNAVAILABLE, "rank %d: %s", i,
                      world.ranks[i].error);
    }
    (void)printf("\n");
    trial->taken = true;
    return whole;
}

/* ---- the oracle ---- */

struct oracle {
    float *versions[MOST_TICKETS + 1]; /* [whole] */
    float *moments[MOST_TICKETS + 1];  /* [3][count] */
    bool seen[MOST_TICKETS];
    int64_t version;
    int servers;
};

static void apply(const struct trial *trial, struct oracle *oracle, float *gradients, float rate) {
    size_t count = trial->terms.count;
    struct ls_device *device[LS_MAX_LOCAL_DEVICES];
    struct ls_thread_state before;
    struct ls_optimizer_step step = trial->session.step;
    int devices;
    const ls_shape shape = LS_SHAPE((int64_t)count);
    step.iteration = oracle->version + 1;
    step.rule.learning_rate = rate;
    struct ls_op op = {.kind = (enum ls_op_kind)trial->terms.kind,
                       .step = &step,
                       .variables = trial->parts,
                       .variable_count = trial->terms.part_count};
    float *next = oracle->versions[oracle->version + 1], *moments = oracle->moments[oracle->version + 1];
    op.tensors[LS_ARG_PARAMETERS] = (struct ls_tensor){next, LS_FLOAT32, shape, 0};
    op.tensors[LS_ARG_GRADIENTS] = (struct ls_tensor){gradients, LS_FLOAT32, shape, 0};
    for (int m = 0; m < trial->terms.moments; m++)
        op.tensors[LS_ARG_MOMENT_1 + m] = (struct ls_tensor){moments + (size_t)m * count, LS_FLOAT32, shape, 0};
    assert_ok(ls_devices_open("cpu:0", 1, device, &devices));
    assert_ok(device[0]->ops->build(device[0], &op));
    assert_ok(device[0]->ops->enter(device[0], &before));
    assert_ok(op.run(&op));
    device[0]->ops->leave(device[0], &before);
    device[0]->ops->discard(device[0], &op);
    ls_device_close(device[0]);
    for (size_t i = count; i < trial->whole; i++) next[i] += gradients[i];
}

/* The variables as the ticket has read them, each stripe at its version. */
static void compose(const struct trial *trial, const struct oracle *oracle, const long long *versions,
                    float *variables) {
    const struct ls_layout layout = ls_layout_of(&trial->terms, oracle->servers);
    for (int s = 0; s < oracle->servers; s++)
        for (size_t b = 0; b < trial->terms.bucket_count; b++) {
            struct ls_range range = ls_layout_range(&layout, b, s);
            memcpy(variables + range.begin, oracle->versions[versions[s]] + range.begin,
                   (range.end - range.begin) * sizeof(float));
        }
}

static float expected_factor(const struct trial *trial, long long staleness) {
    if (trial->session.on_stale == LS_STALE_SCALE && staleness > 1) return 1.0F / (float)staleness;
    return trial->session.on_stale == LS_STALE_DROP && staleness > trial->session.max_staleness ? 0 : 1;
}

static void follow_decision(const struct trial *trial, struct oracle *oracle, long long ticket, float factor,
                            const long long *versions) {
    float *variables = new_blob(trial->whole), *gradients = new_blob(trial->whole);
    int64_t now = oracle->version;
    ck_assert_msg(!oracle->seen[ticket], "ticket %lld is decided twice", ticket);
    oracle->seen[ticket] = true;
    ck_assert_float_eq(factor, expected_factor(trial, now - versions[0]));
    compose(trial, oracle, versions, variables);
    compute(trial, ticket, variables, gradients);
    memcpy(oracle->versions[now + 1], oracle->versions[now], trial->whole * sizeof(float));
    memcpy(oracle->moments[now + 1], oracle->moments[now], 3 * trial->terms.count * sizeof(float));
    if (factor > 0) apply(trial, oracle, gradients, rate_of(ticket) * factor);
    oracle->version++;
    ls_free(variables);
    ls_free(gradients);
}

static void follow_record(const struct trial *trial, struct oracle *oracle) {
    char line[256];
    long long begin, tickets, version, versions[MOST_SERVERS], ticket_of[MOST_TICKETS];
    int workers, used;
    FILE *file = fopen(trial->record, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "session %lld %lld %d %d %lld", &begin, &tickets, &oracle->servers, &workers, &version) == 5) {
            while (oracle->version > version) oracle->seen[ticket_of[--oracle->version]] = false;
            continue;
        }
        float factor;
        long long ticket;
        char *at = line;
        ck_assert_int_eq(sscanf(at, "%lld %f%n", &ticket, &factor, &used), 2);
        for (int s = 0; s < oracle->servers; s++) {
            at += used;
            ck_assert_int_eq(sscanf(at, "%lld%n", &versions[s], &used), 1);
            ck_assert_msg(versions[s] >= versions[0] && versions[s] <= oracle->version, "out of order: %s", line);
        }
        ticket_of[oracle->version] = ticket;
        follow_decision(trial, oracle, ticket, factor, versions);
    }
    (void)fclose(file);
}

static void check_end(const struct trial *trial, const struct oracle *oracle) {
    ck_assert_int_eq(oracle->version, trial->session.tickets);
    for (int i = 0; i < trial->workers; i++)
        for (size_t e = 0; e < trial->whole; e++)
            ck_assert_msg(!memcmp(&trial->copies[i][e], &oracle->versions[oracle->version][e], sizeof(float)),
                          "element %zu of rank %d is %g, not %g", e, i, (double)trial->copies[i][e],
                          (double)oracle->versions[oracle->version][e]);
}

static void new_oracle(const struct trial *trial, struct oracle *oracle) {
    *oracle = (struct oracle){.version = 0};
    for (int i = 0; i <= MOST_TICKETS; i++) {
        oracle->versions[i] = new_blob(trial->whole);
        oracle->moments[i] = new_blob(3 * trial->terms.count);
    }
    memcpy(oracle->versions[0], trial->first, trial->whole * sizeof(float));
}

static void free_oracle(struct oracle *oracle) {
    for (int i = 0; i <= MOST_TICKETS; i++) {
        ls_free(oracle->versions[i]);
        ls_free(oracle->moments[i]);
    }
}

/* ---- trials ---- */

/* A worker is lost at some ticket, or before the first; of servers with two copies one may be lost as well, and another
 * one come. */
static void draw_losses(struct trial *trial, bool last) {
    for (int w = 0; w < MOST_WORKERS; w++) trial->fails[w] = NEVER;
    if (last) return;
    int tickets = draw_once_in(&trial->draw, 3) ? BEFORE_THE_SESSION : (int)draw_below(&trial->draw, 5);
    trial->fails[draw_below(&trial->draw, (size_t)trial->workers)] = tickets;
}

static void change_tasks(struct trial *trial) {
    bool may = trial->fleet.count > 1 && trial->terms.replicas > 1;
    trial->workers = 1 + (int)draw_below(&trial->draw, MOST_WORKERS);
    if (trial->away)
        fleet_put_back(&trial->fleet, &trial->draw, ls_steal(trial->away));
    else if (may && draw_once_in(&trial->draw, 2))
        trial->away = fleet_take_out(&trial->fleet, &trial->draw);
    else if (may && draw_once_in(&trial->draw, 2))
        fleet_lose(&trial->fleet, &trial->draw);
    if (trial->fleet.count < MOST_SERVERS && !trial->away && draw_once_in(&trial->draw, 3)) fleet_add(&trial->fleet);
}

static void replay(struct trial *trial, const struct oracle *oracle) {
    fleet_end(&trial->fleet);
    while (trial->fleet.count < oracle->servers) fleet_add(&trial->fleet);
    for (int i = 0; i < MOST_WORKERS; i++) memcpy(trial->copies[i], trial->first, trial->whole * sizeof(float));
    trial->workers = MOST_WORKERS;
    trial->taken = false;
    trial->replays = true;
    draw_losses(trial, true);
    ck_assert(run_generation(trial));
    check_end(trial, oracle);
}

static void run_trial(uint64_t seed, uint64_t stream, int losses) {
    struct trial trial;
    struct oracle oracle;
    bool ended = false, alike = true;
    (void)printf("# case %llu of seed %llu\n", (unsigned long long)stream, (unsigned long long)seed);
    draw_trial(&trial, seed, stream);
    int servers = trial.fleet.count;
    for (int i = 0; !ended; i++) {
        ck_assert_msg(i <= losses, "a generation without a loss ends before the session does");
        draw_losses(&trial, i >= losses);
        ended = run_generation(&trial);
        if (!ended) change_tasks(&trial);
        alike = alike && trial.fleet.count == servers;
    }
    new_oracle(&trial, &oracle);
    follow_record(&trial, &oracle);
    check_end(&trial, &oracle);
    if (alike) replay(&trial, &oracle);
    free_oracle(&oracle);
    free_trial(&trial);
}

TEST(every_order_has_the_oracles_bits_and_a_replay_has_them_too) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) run_trial(seed, i, 0);
}

TEST(losses_repeat_no_ticket_and_leave_none_out) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < CASES; i++) run_trial(seed, 1000 + i, 1 + (int)(i % 4));
}

/* ---- tickets ---- */

/* Workers take and finish in a random order; nobody is ahead of the slowest by more than the bound, and all is done. */
static void run_tickets(struct draw *draw) {
    enum { MOST = 200, WORKERS = 6 };
    uint64_t done[(MOST + 63) / 64] = {0};
    int64_t count = 1 + (int64_t)draw_below(draw, MOST), bound = (int64_t)draw_below(draw, 5) - 1, given = 0;
    int64_t clocks[WORKERS] = {0}, has[WORKERS];
    int workers = 1 + (int)draw_below(draw, WORKERS);
    bool asked[WORKERS] = {false};
    struct ls_tickets *tickets = NULL;
    for (int64_t t = 0; t < count; t++)
        if (draw_once_in(draw, 4)) done[t / 64] |= UINT64_C(1) << t % 64;
    assert_ok(ls_tickets_new(count, done, workers, bound, &tickets));
    for (int w = 0; w < workers; w++) has[w] = LS_NO_TICKET;
    while (!ls_tickets_are_over(tickets)) {
        int who = (int)draw_below(draw, (size_t)workers), worker;
        int64_t ticket;
        if (has[who] != LS_NO_TICKET) {
            done[has[who] / 64] |= UINT64_C(1) << has[who] % 64;
            has[who] = LS_NO_TICKET;
            clocks[who]++;
            ls_tickets_finish(tickets, who);
        } else if (!asked[who]) {
            ls_tickets_ask(tickets, who);
            asked[who] = true;
        }
        if (draw_once_in(draw, 300)) ls_tickets_close(tickets);
        while (ls_tickets_give(tickets, &worker, &ticket)) {
            int64_t least = clocks[0];
            for (int w = 1; w < workers; w++) least = clocks[w] < least ? clocks[w] : least;
            ck_assert(asked[worker] && has[worker] == LS_NO_TICKET && ticket >= given && ticket < count);
            ck_assert(!(done[ticket / 64] >> ticket % 64 & 1));
            ck_assert(bound < 0 || clocks[worker] - least <= bound);
            given = ticket + 1;
            has[worker] = ticket;
            asked[worker] = false;
        }
    }
    for (int64_t t = 0; t < ls_tickets_end(tickets); t++) ck_assert(done[t / 64] >> t % 64 & 1);
    ls_tickets_free(tickets);
}

TEST(every_ticket_is_given_once_within_the_bound) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < 500; i++) {
        struct draw draw = draw_from(seed, i);
        run_tickets(&draw);
    }
}

/* A folder is opened as a file, and then not read. */
TEST(a_record_that_cannot_be_read_is_told) {
    const struct ls_session session = {.tickets = 1};
    struct ls_session_replay *replay = NULL;
    assert_fails(ls_session_replay_open("/tmp", &session, 1, 1, &replay), LS_FAILED_PRECONDITION,
                 "cannot read '/tmp': Is a directory");
    ck_assert_ptr_null(replay);
}

TESTS("store/session", .seconds = 120)
