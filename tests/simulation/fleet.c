/* The tasks of a simulation and what happens to them. */
#include "simulation/fleet.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/cluster_private.h"
#include "cluster/exchange.h"
#include "cluster/join.h"
#include "cluster/leave.h"
#include "collective/link/abort.h"
#include "simulation/clock_world.h"
#include "simulation/names.h"
#include "simulation/process.h"

#define STEP     (250 * LS_MILLISECOND)
#define UNEVEN   (10 * LS_MILLISECOND) /* between the first and the last that commits */
#define COPYING  300                   /* milliseconds that it takes to get the state */
#define FOR_EVER INT64_MAX
#define FEW      64 /* workers, each of which can be compared with each */

/* ---- The life of a process ----------------------------------------------------------------------------------------
 */

/* Waits so many milliseconds. UNAVAILABLE or the like: the generation was given up meanwhile. */
static ls_status wait_or_abort(const struct task *task, int milliseconds) {
    struct pollfd slot = {.fd = ls_abort_fd(task->abort), .events = POLLIN};
    return poll(&slot, 1, milliseconds) > 0 ? ls_abort_status(task->abort) : LS_OK;
}

static bool is_in(const struct task *task, uint64_t generation) {
    const struct ls_cluster *cluster = task->ended || !task->process || !task->process->alive ? NULL : task->cluster;
    if (!cluster || cluster->phase != LS_PHASE_MEMBER || cluster->failure.status) return false;
    return cluster->generation == generation;
}

/* True: all members of the generation that this task is in are in it now. */
static bool is_all_in(const struct task *task) {
    const struct fleet *fleet = task->fleet;
    int count = 0;
    for (int rank = 0; rank < fleet->config.size; rank++) count += is_in(&fleet->tasks[rank], task->generation);
    return is_in(task, task->generation) && count == task->cluster->group.size;
}

/* Two generations that are whole at one time could both commit: the promise LINE. */
static void look_for_split(struct task *task) {
    const struct fleet *fleet = task->fleet;
    if (!fleet->config.elastic || fleet->config.size > FEW || !is_all_in(task)) return;
    for (int rank = 0; rank < fleet->config.size; rank++) {
        const struct task *other = &fleet->tasks[rank];
        task->fleet->split |= other->generation != task->generation && is_all_in(other);
    }
}

static void note_entry(struct task *task, const struct ls_generation *generation) {
    struct fleet *fleet = task->fleet;
    task->generation = generation->number;
    task->position = generation->position;
    task->holds = task->joined = true;
    look_for_split(task);
    if (generation->number > fleet->generation) {
        fleet->generation = generation->number;
        fleet->members = ls_cluster_group(task->cluster)->size;
        fleet->position = generation->position;
        fleet->entered = 0;
        fleet->begun_at = 0;
        fleet->formed_at = ls_now();
    }
    if (generation->number != fleet->generation) return;
    if (++fleet->entered == fleet->members) fleet->begun_at = ls_now();
}

static ls_status exchange(const struct task *task) {
    size_t count = (size_t)ls_cluster_group(task->cluster)->size;
    uint64_t own[2] = {(uint64_t)task->lives, (uint64_t)task->rank};
    struct ls_bytes *received = ls_alloc_array(count, sizeof(*received));
    if (!received) return ls_fail_memory("an exchange", count);
    ls_status status = ls_cluster_exchange(task->cluster, "restarts", (struct ls_bytes){own, sizeof(own)}, 0, received);
    for (size_t i = 0; i < count && !status; i++) ls_free(received[i].data);
    ls_free(received);
    return status;
}

static ls_status enter(struct task *task) {
    const struct ls_standing standing = {task->holds, task->position};
    struct ls_generation generation;
    ls_status status = ls_join_form(task->cluster, &standing, &generation);
    if (!status && generation.copy && generation.lacks) status = wait_or_abort(task, COPYING);
    if (!status && (generation.lacks || !generation.copy)) {
        task->holds = true;
        task->position = generation.position;
    }
    if (!status) status = ls_join_accept(task->cluster);
    if (status) return status;
    note_entry(task, &generation);
    return exchange(task);
}

/* A step is complete when all members have taken part in it, so none is after one of them was disturbed. */
static bool may_commit(const struct task *task, int64_t step) {
    const struct fleet *fleet = task->fleet;
    if (task->generation != fleet->generation || !fleet->begun_at) return false;
    int64_t complete = fleet->begun_at + (step - fleet->position) * STEP;
    bool disturbed = fleet->disturbed_at > fleet->formed_at && fleet->disturbed_at <= complete;
    return !disturbed && ls_now() >= complete;
}

static ls_status train(struct task *task) {
    const struct fleet *fleet = task->fleet;
    while (task->position < fleet->last_position) {
        ls_status status = wait_or_abort(task, (int)((STEP + clock_between(0, UNEVEN)) / LS_MILLISECOND));
        if (status) return status;
        while (task->position < fleet->last_position && may_commit(task, task->position + 1)) task->position++;
    }
    return ls_leave_pass_exit(task->cluster);
}

static void end_process(void *context, uint64_t number) {
    struct process *process = context;
    (void)number;
    process_kill(process);
}

static void keep_line(void *context, ls_log_level level, const char *line) {
    struct task *task = context;
    (void)level;
    (void)snprintf(task->said, sizeof(task->said), "%s", line);
}

static ls_status end(struct task *task, ls_status status) {
    if (!task->joined) {
        ls_join_give_up(task->cluster, status);
        return status;
    }
    return ls_cluster_leave(task->cluster, status);
}

static ls_status run(struct task *task) {
    ls_status status;
    do {
        status = enter(task);
        if (!status) status = train(task);
        if (status && ls_leave_is_over(task->cluster)) status = LS_OK;
    } while (status && ls_join_may_recover(task->cluster, status, false));
    return end(task, status);
}

static void *live(void *argument) {
    struct task *task = argument;
    struct fleet *fleet = task->fleet;
    struct ls_log log = {.sink = keep_line, .context = task, .level = LS_LOG_INFO};
    ls_status status = ls_abort_new(&task->abort);
    const struct ls_cluster_config config = {.tf_config = &task->spec,
                                             .settings = &fleet->settings,
                                             .log = &log,
                                             .abort = task->abort,
                                             .version = "1",
                                             .elastic = fleet->config.elastic};
    if (!status) status = ls_cluster_new(&config, &task->cluster);
    if (!status) status = run(task);
    (void)snprintf(task->error, sizeof(task->error), "%s", status ? ls_error() : "");
    task->status = status;
    task->ended = true;
    task->ended_at = clock_now();
    task->cluster = NULL;
    fleet->ended++;
    clock_at(clock_now(), end_process, task->process, 0);
    return NULL;
}

/* ---- Starting and ending ------------------------------------------------------------------------------------------
 */

static struct process *add_process(struct fleet *fleet, int rank) {
    if (fleet->process_count == fleet->process_room) {
        fleet->process_room = 2 * fleet->process_room + fleet->config.size;
        size_t bytes = (size_t)fleet->process_room * sizeof(struct process *);
        fleet->processes = realloc(fleet->processes, bytes);
        if (!fleet->processes) abort();
    }
    struct process *process = process_new(rank, rank / fleet->config.per_host);
    fleet->processes[fleet->process_count++] = process;
    return process;
}

static void start(void *context, uint64_t number) {
    struct task *task = context;
    struct fleet *fleet = task->fleet;
    (void)number;
    if (fleet->over) return;
    task->process = add_process(fleet, task->rank);
    wire_add(task->process, &task->traffic);
    task->lives++;
    task->holds = task->joined = false;
    task->position = 0;
    task->generation = 0;
    struct process *before = process_enter(task->process);
    if (!process_start(live, task)) abort();
    (void)process_enter(before);
}

static void fill_settings(struct fleet *fleet) {
    const struct fleet_config *config = &fleet->config;
    struct ls_settings *settings = &fleet->settings;
    if (ls_settings_read(settings)) abort();
    settings->control_window = config->window ? config->window : 3;
    settings->join_timeout = config->join_timeout > 0 ? config->join_timeout : 60;
    settings->collective_timeout = 60;
    settings->rejoin_timeout = config->elastic ? 4 : 60;
    if (config->rejoin_timeout > 0) settings->rejoin_timeout = settings->collective_timeout = config->rejoin_timeout;
    settings->exit_timeout = 30;
    settings->report_interval = 5;
}

static void fill_spec(struct fleet *fleet) {
    struct ls_cluster_view *spec = &fleet->spec;
    int size = fleet->config.size;
    *spec = (struct ls_cluster_view){.type = LS_TASK_WORKER, .task_count = size};
    spec->tasks = calloc((size_t)size, sizeof(*spec->tasks));
    if (!spec->tasks) abort();
    for (int rank = 0; rank < size; rank++) {
        struct ls_task *task = &spec->tasks[rank];
        char address[64];
        names_of(rank, address, sizeof(address));
        *task = (struct ls_task){.type = LS_TASK_WORKER, .index = rank, .address = strdup(address)};
        char *port = strchr(address, ':');
        task->port = atoi(port + 1);
        *port = 0;
        task->host = strdup(address);
    }
    if (ls_cluster_view_complete(spec)) abort();
}

void fleet_begin(struct fleet *fleet, const struct fleet_config *config) {
    *fleet = (struct fleet){.config = *config, .last_position = FOR_EVER};
    clock_begin(config->seed);
    wire_begin(config->size);
    names_begin(config->per_host);
    fill_settings(fleet);
    fill_spec(fleet);
    fleet->tasks = calloc((size_t)config->size, sizeof(*fleet->tasks));
    if (!fleet->tasks) abort();
    int64_t spread = (int64_t)((config->spread > 0 ? config->spread : 1) * (double)LS_SECOND);
    for (int rank = 0; rank < config->size; rank++) {
        struct task *task = &fleet->tasks[rank];
        *task = (struct task){.fleet = fleet, .rank = rank, .spec = fleet->spec};
        task->spec.index = task->spec.id_in_cluster = rank;
        task->spec.is_chief = !rank;
        task->starts_at = clock_now() + clock_between(0, spread);
        if (rank != config->absent) clock_at(task->starts_at, start, task, 0);
    }
    fleet->ended = config->absent >= 0;
}

void fleet_end(struct fleet *fleet) {
    struct ls_cluster_view *spec = &fleet->spec;
    fleet->over = true;
    fleet_mend(fleet);
    for (int i = 0; i < fleet->process_count; i++) process_kill(fleet->processes[i]);
    while (clock_turn(FOR_EVER - 1)) continue;
    for (int i = 0; i < fleet->process_count; i++) {
        wire_free(fleet->processes[i]);
        process_free(fleet->processes[i]);
    }
    for (int rank = 0; rank < spec->task_count; rank++) {
        free(spec->tasks[rank].address);
        free(spec->tasks[rank].host);
    }
    free(spec->tasks);
    free(spec->canonical);
    free(fleet->processes);
    free(fleet->tasks);
    process_end_all();
    wire_end();
    clock_end();
}

bool fleet_run(struct fleet *fleet, fleet_condition *condition, double seconds) {
    int64_t until = clock_now() + (int64_t)(seconds * (double)LS_SECOND);
    while (!condition(fleet))
        if (!clock_turn(until)) return condition(fleet);
    return true;
}

bool fleet_is_formed(const struct fleet *fleet) {
    bool all = fleet->config.elastic || fleet->members == fleet->config.size;
    return fleet->begun_at && all && fleet->formed_at > fleet->disturbed_at;
}

bool fleet_is_over(const struct fleet *fleet) {
    return fleet->ended == fleet->config.size;
}

bool fleet_never(const struct fleet *fleet) {
    (void)fleet;
    return false;
}

/* ---- Disturbances ---------------------------------------------------------------------------------------------------
 */

static void start_anew(struct task *task, double restart) {
    if (restart < 0) {
        task->fleet->ended++;
        return;
    }
    clock_at(clock_now() + (int64_t)(restart * (double)LS_SECOND), start, task, 0);
}

void fleet_kill(struct fleet *fleet, int rank, double restart) {
    fleet->disturbed_at = clock_now();
    process_kill(fleet->tasks[rank].process);
    fleet->tasks[rank].cluster = NULL; /* it was the process's memory */
    start_anew(&fleet->tasks[rank], restart);
}

void fleet_crash(struct fleet *fleet, int rank, double restart) {
    wire_crash(fleet->tasks[rank].process);
    fleet_kill(fleet, rank, restart);
}

void fleet_freeze(struct fleet *fleet, int rank, double seconds) {
    fleet->disturbed_at = clock_now();
    fleet->tasks[rank].process->frozen_until = clock_now() + (int64_t)(seconds * (double)LS_SECOND);
}

void fleet_cut(struct fleet *fleet, const uint8_t *sides, double seconds) {
    fleet->disturbed_at = clock_now();
    wire_cut(sides, clock_now() + (int64_t)(seconds * (double)LS_SECOND));
}

void fleet_mend(struct fleet *fleet) {
    (void)fleet;
    wire_cut(NULL, 0);
}

void fleet_finish(struct fleet *fleet) {
    fleet->last_position = 0;
    for (int rank = 0; rank < fleet->config.size; rank++)
        if (fleet->tasks[rank].position >= fleet->last_position) fleet->last_position = fleet->tasks[rank].position + 2;
}

int fleet_coordinator(const struct fleet *fleet) {
    return (int)(fleet->generation % (uint64_t)fleet->config.size);
}
