/* The measurement at start: a few sizes, smallest first, and every algorithm that the group offers. An algorithm that
 * falls far behind is left out of the larger sizes. A row that would take too long is not begun. All decisions follow
 * from times that the ranks have agreed on (the slowest rank's), so all ranks decide alike. */
#include "collective/tuner.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collective/algorithm.h"
#include "collective/collectives.h"
#include "collective/group_private.h"
#include "collective/schedule/schedules.h"
#include "base/plain.h"

static const size_t sizes[LS_CHOICE_ROWS] = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22};

#define BUDGET         0.2         /* seconds for everything */
#define ENOUGH         0.002       /* seconds for one algorithm and size, if as many as MOST calls fit in */
#define SLOW           0.01        /* seconds: then one call must do */
#define MOST           15          /* calls of one algorithm and size; odd */
#define LEAST          3           /* of those that are not slow */
#define CLEARLY        0.9         /* of the time of the best algorithm so far; a smaller gain would be chance */
#define HALF           0.5         /* likewise, of shared memory's: links within a host come near it by chance only */
#define FAR_BEHIND     3           /* times the best */
#define GIVEN_UP       2           /* such sizes in a row */
#define ONE_STEP       (64 * 1024) /* bytes to all peers together, where nothing is measured */
#define MOST_ONE_STEP  (1 << 20)   /* likewise, where it is */
#define LEAST_ASSISTED (64 * 1024) /* bytes from which parameter servers are measured */
#define MANY           8           /* workers: more of them that share memory are not measured */
#define MOST_OF_HOST   (64 << 20)  /* bytes that the workers of a host measure with, together */

struct measurement {
    struct ls_group *group;
    struct ls_tuner_choice *choice;
    float *data; /* as many bytes as the largest size */
    int64_t started;
    double elapsed;                 /* seconds, as agreed */
    int behind[LS_ALGORITHM_COUNT]; /* sizes in a row at which it was far behind */
    int rows;
};

/* A call of one leaf a worker. */
static struct ls_reduction plain_call(const struct ls_group *group, size_t element, size_t count,
                                      ls_compression compression) {
    return (struct ls_reduction){.rank = group->executor.rank,
                                 .size = group->executor.size,
                                 .element = element,
                                 .count = count,
                                 .compression = compression,
                                 .first = group->first,
                                 .hosts = &group->flat};
}

/* ---- finding ---- */

/* Each rank, or the first of each host, would hold a link to all others. There is no other
 * way where halving-doubling does not fit. */
static bool is_too_wide(const struct ls_group *group, const struct ls_reduction *reduction,
                        enum ls_algorithm algorithm) {
    bool two_level = algorithm == LS_ALGORITHM_TWO_LEVEL, assist = algorithm == LS_ALGORITHM_ASSIST;
    if (!two_level && !assist && algorithm != LS_ALGORITHM_EXCHANGE && algorithm != LS_ALGORITHM_DIRECT) return false;
    int links = two_level ? group->hosts.count : reduction->size;
    return links > group->config.direct_limit && links > 2 &&
           ls_algorithm_offers(LS_ALGORITHM_HALVING, group, reduction);
}

static bool may_take(const struct ls_group *group, const struct ls_reduction *reduction, enum ls_algorithm algorithm) {
    return ls_algorithm_offers(algorithm, group, reduction) && !is_too_wide(group, reduction, algorithm);
}

enum ls_algorithm ls_tuner_over_links(const struct ls_reduction *reduction, int direct_limit) {
    size_t peers = (size_t)reduction->size - 1;
    bool wide = reduction->size > direct_limit && peers > 1;
    if (wide && !reduction->compression && ls_halving_fits(reduction)) return LS_ALGORITHM_HALVING;
    if (!peers || reduction->count * reduction->element <= ONE_STEP / peers) return LS_ALGORITHM_EXCHANGE;
    return LS_ALGORITHM_DIRECT;
}

static enum ls_algorithm default_rule(const struct ls_group *group, const struct ls_reduction *reduction) {
    if (ls_algorithm_offers(LS_ALGORITHM_SHARED, group, reduction)) return LS_ALGORITHM_SHARED;
    if (may_take(group, reduction, LS_ALGORITHM_TWO_LEVEL)) return LS_ALGORITHM_TWO_LEVEL;
    return ls_tuner_over_links(reduction, group->config.direct_limit);
}

/* A row stands for the sizes around it, up to twice its own. Rows are a factor of 4 apart, so twice a row's bytes is
 * the middle between two rows on a logarithmic scale. The last row serves all larger vectors. */
static const struct ls_choice_row *row_for(const struct ls_tuner_choice *choice, size_t bytes) {
    int at = 0;
    while (at + 1 < choice->row_count && choice->rows[at].bytes * 2 < bytes) at++;
    return &choice->rows[at];
}

enum ls_algorithm ls_tuner_find(const struct ls_tuner_choice *choice, const struct ls_group *group,
                                const struct ls_reduction *reduction) {
    /* Rounds a host's partials, the others a rank's. */
    if (reduction->compression && ls_algorithm_offers(LS_ALGORITHM_TWO_LEVEL, group, reduction))
        return LS_ALGORITHM_TWO_LEVEL;
    if (!choice || !choice->row_count) return default_rule(group, reduction);
    const struct ls_choice_row *row = row_for(choice, reduction->count * reduction->element);
    if (may_take(group, reduction, row->best)) return row->best;
    enum ls_algorithm best = LS_ALGORITHM_AUTO;
    for (int i = 1; i < LS_ALGORITHM_COUNT; i++)
        if (row->microseconds[i] > 0 && may_take(group, reduction, (enum ls_algorithm)i) &&
            (!best || row->microseconds[i] < row->microseconds[best]))
            best = (enum ls_algorithm)i;
    return best ? best : default_rule(group, reduction);
}

enum ls_algorithm ls_tuner_algorithm(const struct ls_group *group, size_t element, size_t count,
                                     ls_compression compression) {
    if (!ls_group_all_reduce_compresses(group, LS_AUTO)) compression = LS_COMPRESS_NONE;
    const struct ls_reduction reduction = plain_call(group, element, count, compression);
    return group->config.algorithm ? group->config.algorithm : ls_tuner_find(group->choice, group, &reduction);
}

/* ---- measuring ---- */

static ls_status reduce_once(struct ls_group *group, void *data, struct ls_all_reduce call) {
    const void *input = data;
    call.inputs = &input;
    call.outputs = &data;
    return ls_group_all_reduce(group, &call);
}

/* seconds of the slowest rank, and the clock of all. A collective is as fast as its slowest rank, hence MAX. The clock
 * goes along, because ranks that stop measuring at different rows would wait for each other for ever. AUTO carries this
 * call: the candidate itself is on trial. */
static ls_status agree(struct measurement *measurement, double *seconds) {
    double times[2] = {*seconds, ls_seconds_since(measurement->started)};
    measurement->group->config.algorithm = LS_ALGORITHM_AUTO;
    const struct ls_all_reduce call = {
        .name = "AUTO's measurement: times", .dtype = LS_FLOAT64, .op = LS_MAX, .count = 2};
    ls_status status = reduce_once(measurement->group, times, call);
    *seconds = times[0];
    measurement->elapsed = times[1];
    return status;
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The median of the calls, of the slowest rank. The median forgets a call in which the kernel took the processor away;
 * a mean would keep it. The median is each rank's own, and agree takes the slowest of them. */
static ls_status repeat(struct measurement *measurement, enum ls_algorithm algorithm, size_t bytes, int calls,
                        double *seconds) {
    const struct ls_all_reduce call = {.name = "AUTO's measurement", .count = bytes / sizeof(float)};
    double times[MOST];
    ls_status status = LS_OK;
    measurement->group->config.algorithm = algorithm;
    for (int i = 0; i < calls && !status; i++) {
        int64_t begun = ls_now();
        status = reduce_once(measurement->group, measurement->data, call);
        times[i] = ls_seconds_since(begun);
    }
    if (status) return status;
    qsort(times, (size_t)calls, sizeof(times[0]), by_size);
    *seconds = times[calls / 2];
    return agree(measurement, seconds);
}

/* The first call warms up and tells how many more there is time for. */
static ls_status measure_one(struct measurement *measurement, struct ls_choice_row *row, enum ls_algorithm algorithm) {
    double seconds;
    ls_status status = repeat(measurement, algorithm, row->bytes, 1, &seconds);
    int calls = seconds * MOST < ENOUGH ? MOST : seconds < SLOW ? LEAST : 1;
    if (!status) status = repeat(measurement, algorithm, row->bytes, calls, &seconds);
    row->microseconds[algorithm] = seconds * 1e6;
    return status;
}

/* The winner of the row before has the advantage: a rival must take under 0.9 of its time. So noise does not make the
 * table change from row to row. behind counts rows in a row at which an algorithm took more than three times the best;
 * two of them leave it out of the larger sizes. Shared memory is never left out. A rival of it must take under half its
 * time. */
static void choose_fastest(struct measurement *measurement, struct ls_choice_row *row, enum ls_algorithm before) {
    row->best = row->microseconds[before] > 0 ? before : LS_ALGORITHM_AUTO;
    double least = row->microseconds[before] * (before == LS_ALGORITHM_SHARED ? HALF : CLEARLY);
    for (int i = 1; i < LS_ALGORITHM_COUNT; i++) {
        if (row->microseconds[i] <= 0 || (row->best && row->microseconds[i] >= least)) continue;
        row->best = (enum ls_algorithm)i;
        least = row->microseconds[i];
    }
    for (int i = 1; i < LS_ALGORITHM_COUNT; i++) {
        if (i != LS_ALGORITHM_SHARED && row->microseconds[i] > FAR_BEHIND * row->microseconds[row->best])
            measurement->behind[i]++;
        else if (row->microseconds[i] > 0)
            measurement->behind[i] = 0;
    }
}

/* With more than two ranks one step sends more bytes than two. A busy machine may hide that from the measurement. */
static bool sends_too_much(const struct ls_reduction *reduction, enum ls_algorithm algorithm) {
    size_t peers = (size_t)reduction->size - 1, bytes = reduction->count * reduction->element;
    return algorithm == LS_ALGORITHM_EXCHANGE && peers > 1 && bytes > MOST_ONE_STEP / peers;
}

static bool is_candidate(const struct measurement *measurement, enum ls_algorithm algorithm, size_t bytes) {
    const struct ls_group *group = measurement->group;
    const struct ls_reduction reduction = plain_call(group, sizeof(float), bytes / sizeof(float), LS_COMPRESS_NONE);
    if (algorithm == LS_ALGORITHM_HALVING && group->executor.size == 2) return false; /* it is direct exchange */
    if (algorithm == LS_ALGORITHM_ASSIST && bytes < LEAST_ASSISTED) return false;
    return measurement->behind[algorithm] < GIVEN_UP && ls_algorithm_info(algorithm)->in_tree_order &&
           !sends_too_much(&reduction, algorithm) && may_take(group, &reduction, algorithm);
}

/* The seconds that the row at the next size will take. It has four times the bytes, so at most four times the seconds.
 * 4e-6 is a factor of 4 and the change from microseconds to seconds. A latency-bound call takes less than four times as
 * long, so the forecast is a bound. It is for one call of each candidate, as a slow one gets no more. */
static double forecast(const struct measurement *measurement, const struct ls_choice_row *row) {
    double seconds = 0;
    for (int i = 1; i < LS_ALGORITHM_COUNT; i++)
        if (measurement->behind[i] < GIVEN_UP) seconds += 4e-6 * row->microseconds[i];
    return seconds < ENOUGH ? ENOUGH : seconds;
}

static ls_status measure_rows(struct measurement *measurement) {
    struct ls_tuner_choice *choice = measurement->choice;
    bool shared = is_candidate(measurement, LS_ALGORITHM_SHARED, sizes[0]);
    enum ls_algorithm best = shared ? LS_ALGORITHM_SHARED : LS_ALGORITHM_AUTO;
    ls_status status = LS_OK;
    for (int i = 0; i < measurement->rows && !status; i++) {
        struct ls_choice_row *row = &choice->rows[i];
        if (i && measurement->elapsed + forecast(measurement, row - 1) > BUDGET) break;
        row->bytes = sizes[i];
        for (int algorithm = 1; algorithm < LS_ALGORITHM_COUNT && !status; algorithm++)
            if (is_candidate(measurement, (enum ls_algorithm)algorithm, row->bytes))
                status = measure_one(measurement, row, (enum ls_algorithm)algorithm);
        if (status) break;
        choose_fastest(measurement, row, best);
        best = row->best;
        choice->row_count = i + 1;
    }
    choice->milliseconds = measurement->elapsed * 1e3;
    return status;
}

/* The sizes for which the largest host has memory. */
static int count_rows(const struct ls_group *group) {
    const struct ls_hosts *hosts = &group->hosts;
    int workers = 1, rows = 1;
    for (int host = 0; host < hosts->count; host++)
        if (ls_hosts_members(hosts, host) > workers) workers = ls_hosts_members(hosts, host);
    while (rows < LS_CHOICE_ROWS && sizes[rows] <= MOST_OF_HOST / (size_t)workers) rows++;
    return rows;
}

static ls_status measure_all(struct ls_group *group, struct ls_tuner_choice *choice, uint64_t topology) {
    int rows = count_rows(group);
    size_t most = sizes[rows - 1];
    struct measurement measurement = {.group = group, .choice = choice, .started = ls_now(), .rows = rows};
    void *data = NULL;
    *choice = (struct ls_tuner_choice){.topology = topology};
    ls_status status = ls_group_share(group, most, &data);
    if (status) return status;
    memset(data, 0, most); /* every page is there before the clock starts */
    measurement.data = data;
    status = measure_rows(&measurement);
    group->config.algorithm = LS_ALGORITHM_AUTO;
    ls_group_unshare(group, data);
    return status;
}

/* ---- the whole ---- */

static uint64_t topology_of(const struct ls_group *group) {
    uint64_t digest = ls_frame_digest(0, (uint64_t)group->executor.size);
    for (int i = 0; i < group->executor.size; i++) digest = ls_frame_digest(digest, (uint64_t)group->hosts.host[i]);
    for (const char *at = ls_group_describe(group); *at; at++) digest = ls_frame_digest(digest, (unsigned char)*at);
    return ls_frame_digest(digest, (uint64_t)ls_group_servers(group));
}

/* A positive number, equal for equal tables; 0 if there is no table of this topology. */
static int32_t mark_of_choice(const struct ls_tuner_choice *choice, uint64_t topology) {
    uint64_t digest = topology;
    if (!choice->row_count || choice->topology != topology) return 0;
    for (int i = 0; i < choice->row_count; i++) {
        const struct ls_choice_row *row = &choice->rows[i];
        uint64_t times[LS_ALGORITHM_COUNT];
        memcpy(times, row->microseconds, sizeof(times));
        digest = ls_frame_digest(ls_frame_digest(digest, row->bytes), (uint64_t)row->best);
        for (int j = 0; j < LS_ALGORITHM_COUNT; j++) digest = ls_frame_digest(digest, times[j]);
    }
    return (int32_t)(digest % INT32_MAX) + 1;
}

/* Sets have to true if every rank brings the same table of this topology. Collective. A measurement that was cut short,
 * or one of a generation that this rank was no member of, gives another table. The minimum of mark and that of -mark
 * are the minimum and, with its sign turned, the maximum over ranks: one all-reduce tells that all marks are equal. A
 * mark is positive; 0 stands for no table and makes the minimum 0. */
static ls_status all_have(struct ls_group *group, const struct ls_tuner_choice *choice, uint64_t topology, bool *have) {
    int32_t mark = mark_of_choice(choice, topology), ends[2] = {mark, -mark};
    const struct ls_all_reduce call = {.name = "AUTO's measurement: kept", .dtype = LS_INT32, .op = LS_MIN, .count = 2};
    ls_status status = reduce_once(group, ends, call);
    *have = ends[0] > 0 && ends[0] == -ends[1];
    return status;
}

static void tell_choice(const struct ls_group *group, const struct ls_tuner_choice *choice) {
    char text[256] = "";
    for (int i = 0; i < choice->row_count; i++) {
        size_t length = strlen(text), room = sizeof(text) - length;
        const char *name = ls_algorithm_info(choice->rows[i].best)->name;
        if (i + 1 == choice->row_count)
            (void)snprintf(text + length, room, "%s", name);
        else if (choice->rows[i].best != choice->rows[i + 1].best)
            (void)snprintf(text + length, room, "%s up to %zu KiB, then ", name, choice->rows[i].bytes * 2 / 1024);
    }
    ls_log_shared(group->executor.log, !group->executor.rank, LS_LOG_INFO,
                  "AUTO measured for %.0f ms: all-reduce by %s", choice->milliseconds, text);
}

/* Memory leads on a host. To measure its rivals between many workers would make a link for each pair of them. */
static bool is_settled(const struct ls_group *group) {
    return group->executor.size > MANY && group->hosts.count < group->hosts.size;
}

ls_status ls_tuner_measure(struct ls_group *group, struct ls_tuner_choice *choice) {
    if (group->executor.size == 1 || group->config.algorithm) return LS_OK;
    if (is_settled(group)) {
        group->choice = NULL; /* the default rule holds */
        return LS_OK;
    }
    uint64_t topology = topology_of(group);
    bool have = false;
    group->choice = NULL; /* until all have the same */
    ls_status status = all_have(group, choice, topology, &have);
    if (!status && !have) status = measure_all(group, choice, topology);
    if (status) return status;
    group->choice = choice;
    if (!have) tell_choice(group, choice);
    return LS_OK;
}

static void print_row(const struct ls_choice_row *row, const bool *shown, FILE *to) {
    (void)fprintf(to, "%10zu", row->bytes);
    for (int i = 1; i < LS_ALGORITHM_COUNT; i++) {
        if (!shown[i]) continue;
        if (row->microseconds[i] > 0)
            (void)ls_plain_print(to, " %17.1f", row->microseconds[i]);
        else
            (void)fprintf(to, " %17s", "-");
    }
    (void)fprintf(to, "  %s\n", ls_algorithm_info(row->best)->name);
}

static void print_table(const struct ls_tuner_choice *choice, FILE *to) {
    bool shown[LS_ALGORITHM_COUNT] = {false};
    for (int row = 0; row < choice->row_count; row++)
        for (int i = 1; i < LS_ALGORITHM_COUNT; i++) shown[i] |= choice->rows[row].microseconds[i] > 0;
    (void)ls_plain_print(
        to, "measured at start for %.0f ms, microseconds of the slowest rank (-: not offered, or far behind)\n",
        choice->milliseconds);
    (void)fprintf(to, "%10s", "bytes");
    for (int i = 1; i < LS_ALGORITHM_COUNT; i++)
        if (shown[i]) (void)fprintf(to, " %17s", ls_algorithm_info((enum ls_algorithm)i)->name);
    (void)fprintf(to, "  chosen\n");
    for (int row = 0; row < choice->row_count; row++) print_row(&choice->rows[row], shown, to);
}

void ls_tuner_explain(const struct ls_group *group, FILE *to) {
    (void)fprintf(to, "%d workers on %d hosts, through %s\n", group->executor.size, group->hosts.count,
                  ls_group_describe(group));
    if (group->factor > 1)
        (void)fprintf(to,
                      "hosts send up to %d partial results where one would do: their replicas are no aligned ranges\n",
                      group->factor);
    if (group->config.algorithm)
        (void)fprintf(to, "algorithm %s, as LOCKSTEP_ALGORITHM says\n",
                      ls_algorithm_info(group->config.algorithm)->name);
    else if (group->choice && group->choice->row_count)
        print_table(group->choice, to);
}
