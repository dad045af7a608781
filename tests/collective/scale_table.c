/* The program behind bench/scale: what each algorithm costs for 2 to 1,000 workers, counted from the schedules, and the
 * times that follow by the alpha-beta model: steps * latency + bytes of the busiest rank / rate. The tables are
 * Markdown. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "collective/simulate.h"

enum { ROWS = 4, HOST = 8, MOST_WORKERS = 1000 };

static const struct row {
    const char *name;
    enum ls_algorithm algorithm;
    int processes; /* that share memory on a host */
} rows[ROWS] = {{"exchange", LS_ALGORITHM_EXCHANGE, 1},
                {"direct", LS_ALGORITHM_DIRECT, 1},
                {"halving-doubling", LS_ALGORITHM_HALVING, 1},
                {"ring", LS_ALGORITHM_RING, 1}};
static const struct row on_hosts = {"direct between hosts", LS_ALGORITHM_DIRECT, HOST};

static const int workers[] = {2, 3, 4, 8, 16, 31, 64, 100, 256, 1000};
enum { WORKERS = sizeof(workers) / sizeof(workers[0]) };

/* Of an all-reduce of so many bytes. */
struct cost {
    struct simulation_cost counted;
    double vector;
    double layout_us; /* to lay out one rank's schedule */
};

static struct cost cost_of(const struct row *row, int n) {
    static int lowest[MOST_WORKERS];
    for (int i = 0; i < n; i++) lowest[i] = i - i % row->processes;
    size_t count = row->algorithm == LS_ALGORITHM_EXCHANGE ? 16384 : (size_t)n * 1024;
    struct simulation simulation = {
        .algorithm = row->algorithm, .count = count, .size = n, .lowest = row->processes > 1 ? lowest : NULL};
    struct cost cost = {.vector = (double)count * 4};
    int64_t start = ls_now();
    simulation_count(&simulation, &cost.counted);
    cost.layout_us = ls_seconds_since(start) * 1e6 / n;
    struct simulation_cost steps;
    simulation.count = row->algorithm == LS_ALGORITHM_EXCHANGE ? 1 : (size_t)n;
    simulation_run(&simulation, &steps); /* and so it is right in bits as well */
    cost.counted.steps = steps.steps;
    return cost;
}

static double most(const struct cost *cost) {
    size_t sent = cost->counted.sent, received = cost->counted.received;
    return (double)(sent > received ? sent : received) / cost->vector;
}

/* ---- what is counted ---- */

static void print_cost(int n, const struct row *row, const struct cost *cost) {
    const struct simulation_cost *counted = &cost->counted;
    printf("| %d | %s | %d | %d | %.3g | %.3g | %.3g | %d | %.3g | %.0f |\n", n, row->name, counted->steps,
           counted->messages, (double)counted->sent / cost->vector, (double)counted->received / cost->vector,
           (double)counted->link / cost->vector, counted->peers, (double)counted->scratch / cost->vector,
           cost->layout_us);
    (void)fflush(stdout);
}

static void print_head(void) {
    printf("\nOf the rank that has most; S is the vector.\n\n");
    printf("| workers | algorithm | steps | messages | sent, S | received, S | on one link, S | peers | scratch, S | "
           "layout, µs |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
}

/* ---- time ---- */

static double latency, rate, per_message; /* seconds, bytes a second, seconds */

static double seconds(const struct cost *cost, double bytes) {
    return cost->counted.steps * latency + most(cost) * bytes / rate + cost->counted.messages * per_message;
}

static void print_time(double value) {
    if (value < 1e-3)
        printf(" %.0f µs", value * 1e6);
    else if (value < 1)
        printf(" %.3g ms", value * 1e3);
    else
        printf(" %.3g s", value);
}

static void print_bytes(double bytes) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
    printf("%.3g %s", bytes, units[unit]);
}

static int fastest(const struct cost *costs, double bytes) {
    int best = 0;
    for (int i = 1; i < ROWS; i++)
        if (seconds(&costs[i], bytes) < seconds(&costs[best], bytes)) best = i;
    return best;
}

/* Which algorithm is the fastest from which size on: the lower envelope of straight lines. */
static void print_crossovers(const struct cost *costs) {
    int now = fastest(costs, 0);
    for (double at = 0;;) {
        double next = 0;
        printf(" %s", rows[now].name);
        for (int i = 0; i < ROWS; i++) { /* where line i falls below */
            double slope = most(&costs[now]) - most(&costs[i]);
            double size = (seconds(&costs[i], 0) - seconds(&costs[now], 0)) / slope * rate;
            if (i != now && slope > 1e-9 && size >= at && (next <= 0 || size < next)) next = size;
        }
        if (next <= 0) break;
        at = next;
        now = fastest(costs, at * 1.0000001 + 1e-6);
        printf("; from ");
        print_bytes(at);
    }
}

static void print_times(struct cost costs[WORKERS][ROWS]) {
    static const double sizes[] = {4096, 1 << 20, 100 << 20};
    printf("\n### latency %.3g ms, %.3g Gbit/s, %.3g µs of processor a message\n\n", latency * 1e3, rate * 8e-9,
           per_message * 1e6);
    printf("| workers | 4 KB: exchange, direct, halving-doubling, ring | 1 MB | 100 MB | fastest |\n"
           "|--:|---|---|---|---|\n");
    for (int i = 0; i < WORKERS; i++) {
        printf("| %d |", workers[i]);
        for (int size = 0; size < 3; size++) {
            for (int row = 0; row < ROWS; row++) {
                if (row) printf(",");
                print_time(seconds(&costs[i][row], sizes[size]));
            }
            printf(" |");
        }
        print_crossovers(costs[i]);
        printf(" |\n");
    }
}

static int usage(void) {
    (void)fprintf(stderr, "usage: bench/scale [--message-us U]\n"
                          "  --message-us U   processor time that a message costs its sender (default 0)\n");
    return 2;
}

int main(int argc, char **argv) {
    static struct cost costs[WORKERS][ROWS];
    static const struct option options[] = {{"message-us", required_argument, NULL, 'm'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) >= 0;) {
        char *end;
        if (option != 'm') return usage();
        per_message = strtod(optarg, &end) * 1e-6;
        if (*end || end == optarg || !(per_message >= 0)) return usage();
    }
    if (optind < argc) return usage();
    print_head();
    for (int i = 0; i < WORKERS; i++) {
        for (int row = 0; row < ROWS; row++) {
            costs[i][row] = cost_of(&rows[row], workers[i]);
            print_cost(workers[i], &rows[row], &costs[i][row]);
        }
        if (workers[i] % HOST) continue;
        struct cost cost = cost_of(&on_hosts, workers[i]);
        print_cost(workers[i], &on_hosts, &cost);
    }
    static const double latencies[] = {50e-6, 1e-3}, rates[] = {1e9 / 8, 10e9 / 8, 100e9 / 8};
    for (int i = 0; i < 6; i++) {
        latency = latencies[i / 3];
        rate = rates[i % 3];
        print_times(costs);
    }
    return 0;
}
