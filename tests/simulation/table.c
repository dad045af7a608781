/* The program behind bench/control: every scenario for so many workers, as a table in Markdown, or random scenarios. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulation/scenario.h"

struct table {
    const char *only;      /* NULL: every scenario */
    uint64_t seed, random; /* how many; 0: the table */
    bool elastic;
};

static int usage(void) {
    (void)fprintf(stderr, "usage: control-table [--seed S] [--only NAME] [WORKERS...]\n"
                          "       control-table --random COUNT [--seed S] [--elastic off|on]\n");
    return 2;
}

static bool print_row(const struct table *table, const struct scenario *scenario, int size) {
    struct scenario_result result;
    scenario_run(scenario, size, table->seed, &result);
    printf("| %d | %s | %.2f | %.0f | %.0f | %.0f | %d | %d | %.2f | %.1f |\n", size, scenario->name, result.seconds,
           result.median, result.most, result.coordinator, result.streams, result.coordinator_streams, result.megabytes,
           result.real);
    if (*result.failure) printf("seed %llu: %s\n", (unsigned long long)table->seed, result.failure);
    (void)fflush(stdout);
    return !*result.failure;
}

static bool print_random(const struct table *table) {
    uint64_t failed = 0, gave_up = 0;
    for (uint64_t seed = table->seed; seed < table->seed + table->random; seed++) {
        struct scenario_result result;
        scenario_run_random(seed, table->elastic, &result);
        failed += *result.failure != 0;
        gave_up += result.gave_up;
        if (*result.failure) printf("seed %llu: %s\n", (unsigned long long)seed, result.failure);
        (void)fflush(stdout);
    }
    printf("%llu of %llu random scenarios failed, in %llu all ended\n", (unsigned long long)failed,
           (unsigned long long)table->random, (unsigned long long)gave_up);
    return !failed;
}

static bool print_table(const struct table *table, int count, char **sizes) {
    bool well = true;
    printf("| workers | | virtual s | messages of a worker, median | most | of the busiest task | streams of a worker "
           "| of the busiest task | MB of the busiest task | s of a processor |\n"
           "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int at = 0; at < count; at++)
        for (int i = 0; i < scenario_count; i++) {
            int size = atoi(sizes[at]);
            if (size >= scenarios[i].least && (!table->only || strcmp(table->only, scenarios[i].name) == 0))
                well = print_row(table, &scenarios[i], size) && well;
        }
    return well;
}

int main(int count, char **arguments) {
    struct table table = {.seed = 1};
    int at = 1;
    for (; at + 1 < count && strncmp(arguments[at], "--", 2) == 0; at += 2) {
        if (strcmp(arguments[at], "--seed") == 0)
            table.seed = strtoull(arguments[at + 1], NULL, 10);
        else if (strcmp(arguments[at], "--random") == 0)
            table.random = strtoull(arguments[at + 1], NULL, 10);
        else if (strcmp(arguments[at], "--only") == 0)
            table.only = arguments[at + 1];
        else if (strcmp(arguments[at], "--elastic") == 0)
            table.elastic = strcmp(arguments[at + 1], "on") == 0;
        else
            return usage();
    }
    if ((at == count) == !table.random) return usage();
    bool well = table.random ? print_random(&table) : print_table(&table, count - at, arguments + at);
    return well ? EXIT_SUCCESS : EXIT_FAILURE;
}
