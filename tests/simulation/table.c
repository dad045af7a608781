/* The program behind bench/control: every scenario for so many workers, as a table in Markdown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulation/scenario.h"

static int usage(void) {
    (void)fprintf(stderr, "usage: control-table [--seed S] [--only NAME] [WORKERS...]\n");
    return 2;
}

static bool print_row(const struct scenario *scenario, int size, uint64_t seed) {
    struct scenario_result result;
    scenario_run(scenario, size, seed, &result);
    printf("| %d | %s | %.2f | %.0f | %.0f | %.0f | %d | %d | %.2f | %.1f |\n", size, scenario->name, result.seconds,
           result.median, result.most, result.coordinator, result.streams, result.coordinator_streams, result.megabytes,
           result.real);
    if (*result.failure) printf("seed %llu: %s\n", (unsigned long long)seed, result.failure);
    (void)fflush(stdout);
    return !*result.failure;
}

int main(int count, char **arguments) {
    const char *only = NULL;
    uint64_t seed = 1;
    bool well = true;
    int at = 1;
    for (; at + 1 < count && strncmp(arguments[at], "--", 2) == 0; at += 2) {
        if (strcmp(arguments[at], "--seed") == 0)
            seed = strtoull(arguments[at + 1], NULL, 10);
        else if (strcmp(arguments[at], "--only") == 0)
            only = arguments[at + 1];
        else
            return usage();
    }
    if (at == count) return usage();
    printf("| workers | | virtual s | messages of a worker, median | most | of the busiest task | streams of a worker "
           "| of the "
           "busiest task | MB of the busiest task | s of a processor |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (; at < count; at++)
        for (int i = 0; i < scenario_count; i++) {
            int size = atoi(arguments[at]);
            if (size >= scenarios[i].least && (!only || strcmp(only, scenarios[i].name) == 0))
                well = print_row(&scenarios[i], size, seed) && well;
        }
    return well ? EXIT_SUCCESS : EXIT_FAILURE;
}
