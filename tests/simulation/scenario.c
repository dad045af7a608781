/* The table of scenarios, and what is right after each. */
#include "simulation/scenario.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cluster/cluster_private.h"
#include "cluster/peer.h"
#include "simulation/clock_world.h"
#include "simulation/libc.h"
#include "simulation/process.h"

#define SETTLED  1   /* seconds after which a group that has formed is at rest */
#define LONG     120 /* virtual seconds in which everything has come to its end */
#define RESTART  0.5 /* seconds until a task is started anew */
#define BEAT     7   /* the field of an envelope that is a Beat */
#define A_WORKER 120 /* messages of most workers, whatever happens */
#define A_TASK   16  /* messages of any task, for each worker there is */
#define LEAVING  8   /* seconds to leave in order */

static bool fail(struct scenario_result *result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!*result->failure) (void)vsnprintf(result->failure, sizeof(result->failure), format, arguments);
    va_end(arguments);
    return false;
}

/* ---- What happens ---------------------------------------------------------------------------------------- */

static int draw_rank(const struct fleet *fleet, int least) {
    return (int)clock_between(least, fleet->config.size - 1);
}

/* Until all tasks are members of a generation again. */
static bool form(struct fleet *fleet, struct scenario_result *result) {
    if (fleet_run(fleet, fleet_is_formed, LONG)) return true;
    const struct task *first = fleet->tasks, *last = &fleet->tasks[fleet->config.size - 1];
    return fail(result, "no generation has formed: %d of %d entered %llu; first: %s / %s; last: %s / %s",
                fleet->entered, fleet->members, (unsigned long long)fleet->generation, first->said, first->error,
                last->said, last->error);
}

static bool rest(struct fleet *fleet, struct scenario_result *result) {
    (void)result;
    return !fleet_run(fleet, fleet_never, 10);
}

static bool lose_one(struct fleet *fleet, struct scenario_result *result) {
    fleet_kill(fleet, draw_rank(fleet, 1), RESTART);
    return form(fleet, result);
}

static bool lose_coordinator(struct fleet *fleet, struct scenario_result *result) {
    fleet_kill(fleet, fleet_coordinator(fleet), RESTART);
    return form(fleet, result);
}

/* All with whom everybody is connected. */
static bool lose_deputies(struct fleet *fleet, struct scenario_result *result) {
    int most = (int)fleet->settings.control_window + 1;
    for (int rank = 0; rank < most && rank < fleet->config.size - 1; rank++) fleet_kill(fleet, rank, RESTART);
    return form(fleet, result);
}

static bool lose_lowest(struct fleet *fleet, struct scenario_result *result) {
    for (int rank = 0; rank < fleet->config.size / 5; rank++)
        fleet_kill(fleet, rank, (double)clock_between(20, 40) / 10);
    return form(fleet, result);
}

/* They come back together. All of their windows are gone: that nobody looks for them one by one is what Beats are for.
 */
static bool lose_lowest_at_once(struct fleet *fleet, struct scenario_result *result) {
    for (int rank = 0; rank < fleet->config.size / 5; rank++) fleet_kill(fleet, rank, 3);
    return form(fleet, result);
}

static bool lose_many(struct fleet *fleet, struct scenario_result *result) {
    int stride = 1 + (int)(clock_random() % 7);
    for (int rank = 1; rank < fleet->config.size; rank += 5 + stride)
        fleet_kill(fleet, rank, (double)clock_between(1, 20) / 10);
    return form(fleet, result);
}

/* Runs until the coordinator seeks others, and a second longer: then all do. */
static bool coordinator_seeks(const struct fleet *fleet) {
    const struct task *task = &fleet->tasks[fleet_coordinator(fleet)];
    return !task->cluster || task->cluster->phase < LS_PHASE_MEMBER;
}

static bool all_name(struct fleet *fleet, int rank, const char *how, struct scenario_result *result) {
    char name[32];
    (void)snprintf(name, sizeof(name), "worker:%d (rank", rank);
    if (!fleet_run(fleet, coordinator_seeks, fleet->settings.heartbeat_limit + 1))
        return fail(result, "nobody has found that worker:%d is lost", rank);
    (void)fleet_run(fleet, fleet_never, 0.5);
    for (int i = 0; i < fleet->config.size; i++) {
        const struct ls_cluster *cluster = fleet->tasks[i].cluster;
        if (i == rank || !cluster) continue;
        if (!strstr(cluster->next.cause, name) || !strstr(cluster->next.cause, how))
            return fail(result, "worker:%d does not say that worker:%d is %s, but: %s", i, rank, how,
                        cluster->next.cause);
    }
    return true;
}

static bool freeze_one(struct fleet *fleet, struct scenario_result *result) {
    int rank = draw_rank(fleet, 1);
    fleet_freeze(fleet, rank, 10000);
    if (!all_name(fleet, rank, "frozen", result)) return false;
    fleet_kill(fleet, rank, RESTART);
    return form(fleet, result);
}

static bool lose_power(struct fleet *fleet, struct scenario_result *result) {
    int rank = draw_rank(fleet, 1);
    fleet_crash(fleet, rank, RESTART);
    if (!all_name(fleet, rank, "cut off", result)) return false;
    return form(fleet, result);
}

/* A fifth is cut off: the lowest, or any but rank 0. */
static void draw_sides(const struct fleet *fleet, uint8_t *sides, bool lowest) {
    int fifth = fleet->config.size / 5 ? fleet->config.size / 5 : 1;
    memset(sides, 0, (size_t)fleet->config.size);
    while (fifth) {
        int rank = lowest ? fifth - 1 : draw_rank(fleet, 1);
        fifth -= !sides[rank];
        sides[rank] = 1;
    }
}

static bool cut_off(struct fleet *fleet, struct scenario_result *result) {
    uint64_t generation = fleet->generation;
    uint8_t *sides = calloc((size_t)fleet->config.size, 1);
    if (!sides) return fail(result, "no memory");
    draw_sides(fleet, sides, false);
    fleet_cut(fleet, sides, 8);
    (void)fleet_run(fleet, fleet_never, 8);
    bool well = fleet->generation == generation || fail(result, "a generation has formed behind a cut");
    well = well && form(fleet, result);
    (void)fleet_run(fleet, fleet_never, 1); /* letters that were drawn to come late */
    fleet_mend(fleet);
    free(sides);
    return well;
}

static bool is_whole(const struct fleet *fleet) {
    return fleet_is_formed(fleet) && fleet->members == fleet->config.size;
}

/* The larger side goes on, and the others come in when it has healed. */
static bool cut_elastic(struct fleet *fleet, bool lowest, struct scenario_result *result) {
    int fifth = fleet->config.size / 5 ? fleet->config.size / 5 : 1;
    uint8_t *sides = calloc((size_t)fleet->config.size, 1);
    if (!sides) return fail(result, "no memory");
    draw_sides(fleet, sides, lowest);
    fleet_cut(fleet, sides, 12);
    bool well = fleet_run(fleet, fleet_is_formed, 15) || fail(result, "the larger side has not gone on");
    if (well && fleet->members != fleet->config.size - fifth)
        well = fail(result, "%d go on behind a cut, not %d", fleet->members, fleet->config.size - fifth);
    well = well &&
           (fleet_run(fleet, is_whole, LONG) || fail(result, "%d of %d are back", fleet->members, fleet->config.size));
    fleet_mend(fleet);
    free(sides);
    return well;
}

static bool cut_some(struct fleet *fleet, struct scenario_result *result) {
    return cut_elastic(fleet, false, result);
}

static bool cut_lowest(struct fleet *fleet, struct scenario_result *result) {
    return cut_elastic(fleet, true, result);
}

/* A twentieth is slow: what they say takes a second. One of the others is lost. */
static bool slow_ones(struct fleet *fleet, struct scenario_result *result) {
    int size = fleet->config.size, lost = draw_rank(fleet, 1);
    for (int i = 0; i < 1 + size / 20; i++) {
        int rank = draw_rank(fleet, 1);
        if (rank != lost) fleet->tasks[rank].process->slow = LS_SECOND;
    }
    fleet_kill(fleet, lost, RESTART);
    bool well = form(fleet, result);
    for (int rank = 0; rank < size; rank++) {
        if (rank != lost && fleet->tasks[rank].lives > 1) well = fail(result, "worker:%d was lost", rank);
        fleet->tasks[rank].process->slow = 0;
    }
    return well;
}

#define FEW 8 /* streams: both directions to the window, and one that is just ending or coming */
#define ANY INT_MAX

/* The last worker is on the roster of an attempt that another one makes. */
static bool is_tried(const struct fleet *fleet) {
    int last = fleet->config.size - 1;
    const struct task *joiner = &fleet->tasks[last];
    bool up = joiner->process->alive && joiner->cluster && joiner->cluster->incarnation != fleet->tried;
    for (int rank = 0; rank < last && up; rank++) {
        const struct ls_cluster *cluster = fleet->tasks[rank].cluster;
        if (cluster && cluster->phase == LS_PHASE_FORMING &&
            cluster->proposal.roster[last] == joiner->cluster->incarnation)
            return true;
    }
    return false;
}

/* A worker comes back and dies in each attempt to take it in: among few, more often than a ledger has room for. */
static bool lose_joiner(struct fleet *fleet, struct scenario_result *result) {
    int last = fleet->config.size - 1;
    for (int i = 0; i <= (last < 16 ? LS_LEDGER_MOST + 6 : 3); i++) {
        if (i && !fleet_run(fleet, is_tried, LONG))
            return fail(result, "attempt %d has not come: %s", i, fleet->tasks[0].error);
        fleet->tried = fleet->tasks[last].cluster->incarnation;
        fleet_kill(fleet, last, 0.01);
    }
    return fleet_run(fleet, is_whole, LONG) || fail(result, "the joiner is not taken in at last");
}

const struct scenario scenarios[] = {
    {"join", NULL, 3, 5, 12, FEW, NULL},
    {"rest", NULL, 3, 10, 10, FEW, rest},
    {"one lost", NULL, 3, 3, 18, FEW, lose_one},
    {"coordinator lost", NULL, 3, 3, 18, FEW, lose_coordinator},
    {"deputies lost", NULL, 5, 5, ANY, ANY, lose_deputies},
    {"the lowest fifth lost", NULL, 5, 10, ANY, ANY, lose_lowest},
    {"the lowest fifth lost, back together", NULL, 16, 3.9, ANY, ANY, lose_lowest_at_once},
    {"a tenth lost", NULL, 16, 6, 18, FEW, lose_many},
    {"one frozen, then killed", NULL, 3, 8, 18, FEW, freeze_one},
    {"one without power", NULL, 3, 12, 40, FEW, lose_power},
    {"a fifth cut off for 8 s", NULL, 5, 16, ANY, ANY, cut_off},
    {"some slow, one lost", NULL, 5, 16, 24, FEW, slow_ones},
    {"elastic: one lost", "half", 3, 4, 18, FEW, lose_one},
    {"elastic: a fifth cut off for 12 s", "half", 5, 60, ANY, ANY, cut_some},
    {"elastic: the lowest fifth cut off for 12 s", "half", 5, 60, ANY, ANY, cut_lowest},
    {"elastic: a joiner lost in each attempt", "all", 3, 200, ANY, ANY, lose_joiner},
    {"one never starts", NULL, 3, 30, 18, FEW, NULL, ABSENT_ANY},
    {"a deputy never starts", NULL, 5, 30, 18, FEW, NULL, ABSENT_DEPUTY},
};
const int scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);

/* ---- What it took ---------------------------------------------------------------------------------------- */

static double cpu(void) {
    struct timespec time;
    (void)__real_clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint64_t sent_by(const struct task *task, bool beats) {
    uint64_t sent = 0;
    for (int kind = 0; kind < WIRE_KINDS; kind++)
        if (beats || kind != BEAT) sent += task->traffic.sent[kind];
    return sent;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* True: it does what one of many does, and no more. */
static bool is_worker(const struct fleet *fleet, int rank, int led) {
    return rank > fleet->settings.control_window && rank != fleet_coordinator(fleet) && rank != led;
}

/* before: what each task had sent. */
static void count(const struct fleet *fleet, const uint64_t *before, bool beats, int led,
                  struct scenario_result *result) {
    int size = fleet->config.size, workers = 0;
    double *sent = calloc((size_t)size, sizeof(*sent)), per = beats ? result->seconds : 1;
    for (int rank = 0; rank < size && sent; rank++) {
        const struct task *task = &fleet->tasks[rank];
        double own = (double)(sent_by(task, beats) - before[rank]) / per;
        if (own > result->coordinator) result->coordinator = own;
        double megabytes = (double)task->traffic.bytes * 1e-6;
        if (megabytes > result->megabytes) result->megabytes = megabytes;
        if (task->traffic.most_streams > result->coordinator_streams)
            result->coordinator_streams = task->traffic.most_streams;
        if (!is_worker(fleet, rank, led)) continue;
        sent[workers++] = own;
        if (task->traffic.most_streams > result->streams) result->streams = task->traffic.most_streams;
    }
    if (sent && workers) qsort(sent, (size_t)workers, sizeof(*sent), compare);
    if (sent && workers) result->median = sent[workers / 2];
    if (sent && workers) result->most = sent[workers - 1];
    free(sent);
}

/* ---- What is right --------------------------------------------------------------------------------------- */

/* All leave in order, after the same step of the same generation. */
static bool leave(struct fleet *fleet, struct scenario_result *result) {
    (void)fleet_run(fleet, fleet_never, SETTLED);
    fleet_finish(fleet);
    bool over = fleet_run(fleet, fleet_is_over, LEAVING);
    for (int rank = 0; rank < fleet->config.size; rank++) {
        const struct task *task = &fleet->tasks[rank];
        if (!task->ended || task->status)
            return fail(result, "worker:%d does not leave in order: %s, %s", rank, task->error, task->said);
        if (task->position != fleet->last_position || task->generation != fleet->generation)
            return fail(result, "worker:%d leaves at %lld of generation %llu, not at %lld of %llu", rank,
                        (long long)task->position, (unsigned long long)task->generation,
                        (long long)fleet->last_position, (unsigned long long)fleet->generation);
    }
    if (fleet->split) return fail(result, "two generations were whole at one time");
    return over || fail(result, "not all have ended");
}

/* All follow rank 0, also where a deputy is not there: they wait for that one no longer than a second. */
static bool follow_lowest(struct fleet *fleet, struct scenario_result *result) {
    (void)fleet_run(fleet, fleet_never, fleet->config.spread + 4);
    const struct ls_cluster *lowest = fleet->tasks[0].cluster;
    for (int rank = 1; rank < fleet->config.size; rank++)
        if (rank != fleet->config.absent && (!lowest->peers[rank] || !lowest->peers[rank]->report.made))
            return fail(result, "worker:%d has not reported to worker:0", rank);
    return true;
}

/* Everybody's error names who never came. */
static bool name_absent(struct fleet *fleet, struct scenario_result *result) {
    char name[32];
    (void)snprintf(name, sizeof(name), "worker:%d (", fleet->config.absent);
    if (!follow_lowest(fleet, result)) return false;
    if (!fleet_run(fleet, fleet_is_over, LONG)) return fail(result, "not all have ended");
    for (int rank = 0; rank < fleet->config.size; rank++) {
        const struct task *task = &fleet->tasks[rank];
        if (rank != fleet->config.absent && (!task->status || !strstr(task->error, name)))
            return fail(result, "worker:%d does not name worker:%d: %s", rank, fleet->config.absent, task->error);
    }
    return true;
}

static uint64_t *snapshot(const struct fleet *fleet, bool beats) {
    uint64_t *sent = calloc((size_t)fleet->config.size, sizeof(*sent));
    for (int rank = 0; rank < fleet->config.size && sent; rank++) sent[rank] = sent_by(&fleet->tasks[rank], beats);
    return sent;
}

static bool pass(const struct scenario *scenario, struct fleet *fleet, struct scenario_result *result) {
    bool absent = fleet->config.absent >= 0, beats = scenario->happens == rest;
    if (scenario->happens && !form(fleet, result)) return false;
    if (scenario->happens) (void)fleet_run(fleet, fleet_never, SETTLED);
    uint64_t *before = snapshot(fleet, beats);
    int64_t began = clock_now();
    int led = fleet->generation ? fleet_coordinator(fleet) : 0;
    bool well = before != NULL;
    if (well)
        well = scenario->happens ? scenario->happens(fleet, result)
               : absent          ? name_absent(fleet, result)
                                 : form(fleet, result);
    result->seconds = (double)(clock_now() - began) / (double)LS_SECOND;
    if (well) count(fleet, before, beats, led, result);
    free(before);
    bool once = scenario->happens != lose_joiner; /* it forms many groups */
    if (well && once && result->median > A_WORKER)
        well = fail(result, "most workers send %.0f messages, above %d", result->median, A_WORKER);
    if (well && result->most > scenario->messages)
        well = fail(result, "a worker sends %.0f messages, above %d", result->most, scenario->messages);
    if (well && result->streams > scenario->streams)
        well = fail(result, "a worker has %d streams, above %d", result->streams, scenario->streams);
    if (well && once && result->coordinator > A_TASK * fleet->config.size)
        well = fail(result, "a task sends %.0f messages, above %d N", result->coordinator, A_TASK);
    if (well && result->seconds > scenario->slack) well = fail(result, "it took %.1f virtual seconds", result->seconds);
    return well && (absent || leave(fleet, result));
}

void scenario_run(const struct scenario *scenario, int size, uint64_t seed, struct scenario_result *result) {
    bool absent = scenario->absent != ABSENT_NOBODY, deputy = scenario->absent == ABSENT_DEPUTY;
    bool all = scenario->elastic && !strcmp(scenario->elastic, "all");
    char elastic[32];
    (void)snprintf(elastic, sizeof(elastic), "%d", all ? size : size / 2);
    const struct fleet_config config = {.size = size,
                                        .per_host = size > 64 ? 8 : 2,
                                        .seed = seed,
                                        .elastic = scenario->elastic ? elastic : NULL,
                                        .join_timeout = absent ? 20 : 0,
                                        .rejoin_timeout = all ? 300 : 0,
                                        .absent = deputy   ? 1
                                                  : absent ? size - 1 - size / 3
                                                           : -1};
    struct fleet fleet;
    double began = cpu();
    *result = (struct scenario_result){0};
    fleet_begin(&fleet, &config);
    (void)pass(scenario, &fleet, result);
    fleet_end(&fleet);
    result->real = cpu() - began;
}

/* ---- Random ones ----------------------------------------------------------------------------------------- */

#define MOST_RANDOM 24 /* workers */

static bool are_members(const struct fleet *fleet) {
    for (int rank = 0; rank < fleet->config.size; rank++) {
        const struct task *task = &fleet->tasks[rank];
        const struct ls_cluster *cluster =
            task->ended || !task->process || !task->process->alive ? NULL : task->cluster;
        if (!cluster || cluster->phase != LS_PHASE_MEMBER || cluster->generation != fleet->generation) return false;
        if (cluster->group.size != fleet->config.size || cluster->failure.status) return false;
    }
    return true;
}

/* Looks four times a second: to look after each event takes too long. */
static bool gather(struct fleet *fleet, struct scenario_result *result) {
    for (int i = 0; i < 4 * LONG; i++) {
        (void)fleet_run(fleet, fleet_never, 0.25);
        if (are_members(fleet)) return true;
    }
    const struct task *first = fleet->tasks; /* that has ended */
    for (const struct task *task = fleet->tasks; task < fleet->tasks + fleet->config.size; task++)
        if (task->ended && (!first->ended || task->ended_at < first->ended_at)) first = task;
    return fail(result, "not all are members: worker:%d: %s, %s", first->rank, first->error, first->said);
}

static bool is_up(const struct fleet *fleet, int rank) {
    return rank < fleet->config.size && fleet->tasks[rank].process->alive && !fleet->tasks[rank].ended;
}

/* Kills those of the ranks from first to last that are up, unless no survivor were left. */
static void kill_some(struct fleet *fleet, int first, int last, double seconds) {
    bool left = false;
    for (int i = 0; i < fleet->config.size; i++)
        left = left || ((i < first || i > last) && is_up(fleet, i) && fleet->tasks[i].joined);
    for (int i = first; i <= last && left; i++)
        if (is_up(fleet, i)) fleet_kill(fleet, i, seconds + (double)clock_between(0, 10) / 10);
}

/* A worker is killed, or frozen, or its whole host is killed, or some are cut off from the others. */
static void disturb(struct fleet *fleet, uint8_t sides[MOST_RANDOM]) {
    int rank = draw_rank(fleet, 0), each = fleet->config.per_host, kind = (int)clock_between(0, 4);
    double seconds = (double)clock_between(2, 30) / 10;
    if (kind == 3) {
        for (int i = 0; i < fleet->config.size; i++) sides[i] = (uint8_t)clock_between(0, 1);
        fleet_cut(fleet, sides, 2 * seconds);
    } else if (kind == 2) {
        if (is_up(fleet, rank)) fleet_freeze(fleet, rank, 2 * seconds);
    } else if (kind == 1) {
        kill_some(fleet, rank / each * each, rank / each * each + each - 1, seconds);
    } else {
        kill_some(fleet, rank, rank, seconds);
    }
}

/* Elastic: nobody may go on, so all end with an error. */
static bool give_up(struct fleet *fleet, struct scenario_result *result) {
    bool over = fleet_run(fleet, fleet_is_over, LONG);
    for (int rank = 0; rank < fleet->config.size && over; rank++) over = fleet->tasks[rank].status != LS_OK;
    if (!over || fleet->split) return fail(result, "neither all go on nor all end");
    *result = (struct scenario_result){.gave_up = true};
    return true;
}

static bool survive(struct fleet *fleet, struct scenario_result *result) {
    uint8_t sides[MOST_RANDOM];
    if (!gather(fleet, result)) return false;
    for (int count = (int)clock_between(1, 6); count; count--) {
        (void)fleet_run(fleet, fleet_never, (double)clock_between(0, 50) / 10);
        disturb(fleet, sides);
    }
    (void)fleet_run(fleet, fleet_never, 8); /* all that was drawn is over */
    if (!gather(fleet, result)) return fleet->config.elastic && give_up(fleet, result);
    fleet->disturbed_at = 0;
    return leave(fleet, result);
}

void scenario_run_random(uint64_t seed, bool elastic, struct scenario_result *result) {
    struct fleet fleet;
    uint64_t draw = seed * UINT64_C(0x9E3779B97F4A7C15);
    const struct fleet_config config = {.size = 3 + (int)(draw >> 33) % (MOST_RANDOM - 2),
                                        .elastic = elastic ? "2" : NULL,
                                        .per_host = 1 + (int)(draw >> 40) % 6,
                                        .window = 1 + (int)(draw >> 44) % 4,
                                        .spread = 0.1 + (double)((draw >> 48) % 30) / 10,
                                        .seed = seed,
                                        .absent = -1};
    *result = (struct scenario_result){0};
    fleet_begin(&fleet, &config);
    (void)survive(&fleet, result);
    result->seconds = (double)clock_events();
    fleet_end(&fleet);
}
