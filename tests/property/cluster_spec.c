/* Random clusters, of any jobs and with holes, against a table: questions, JSON and back, equality in another order,
 * and errors that name what they refuse and change nothing. */
#include <inttypes.h>
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>

#include "property/draw.h"

enum { MOST = 24, JOBS = 5 };

#define EXPECT(condition)                                                                                              \
    if (!(condition)) trial_fail("--seed %" PRIu64 ": not %s: %s", seed, #condition, ls_error())
#define EXPECT_ERROR(call, wanted, ...)                                                                                \
    do {                                                                                                               \
        const char *parts[] = {__VA_ARGS__};                                                                           \
        EXPECT((call) == (wanted));                                                                                    \
        for (size_t part = 0; part < sizeof(parts) / sizeof(parts[0]); part++)                                         \
            EXPECT(strstr(ls_error(), parts[part]) != NULL);                                                           \
    } while (0)

static const char *const names[JOBS] = {"chief", "gateway \"x\"", "ps", "worker", "\xc3\xbc"}; /* in strcmp's order */

/* The oracle: addresses[job][index], "" where there is no task. */
struct table {
    char addresses[JOBS][MOST][48];
    int counts[JOBS], count, order[JOBS * MOST];
};

static void draw_table(struct draw *draw, struct table *table) {
    memset(table, 0, sizeof(*table));
    for (int job = 0; job < JOBS; job++) {
        bool holes = draw_once_in(draw, 2);
        int tasks = draw_once_in(draw, 3) ? 0 : 1 + (int)draw_below(draw, MOST);
        for (int i = 0; i < tasks; i++) {
            if (holes && draw_once_in(draw, 3)) continue;
            (void)snprintf(table->addresses[job][i], sizeof(table->addresses[job][i]),
                           draw_once_in(draw, 4) ? "[::%x]:%d" : "host%d.example:%d", job * MOST + i + 1,
                           1 + (int)draw_below(draw, 65535));
            table->counts[job]++;
            table->order[table->count++] = job * MOST + i;
        }
    }
}

static ls_cluster_spec *make(uint64_t seed, struct draw *draw, struct table *table) {
    ls_cluster_spec *spec = NULL;
    EXPECT(ls_cluster_spec_new(NULL, &spec) == LS_OK);
    for (int left = table->count; left > 0; left--) {
        int *picked = &table->order[draw_below(draw, (size_t)left)], task = *picked;
        *picked = table->order[left - 1];
        table->order[left - 1] = task;
        EXPECT(ls_cluster_spec_add(spec, names[task / MOST], task % MOST, table->addresses[task / MOST][task % MOST]) ==
               LS_OK);
    }
    return spec;
}

static void check_job(uint64_t seed, const ls_cluster_spec *spec, const struct table *table, int job) {
    int count = -1, indices[MOST], next = 0;
    const char *address = NULL;
    if (!table->counts[job]) {
        EXPECT_ERROR(ls_cluster_spec_num_tasks(spec, names[job], &count), LS_NOT_FOUND, "there is no job '");
        EXPECT_ERROR(ls_cluster_spec_task_indices(spec, names[job], MOST, indices), LS_NOT_FOUND, "there is no job '");
        EXPECT(count == -1);
        return;
    }
    EXPECT(ls_cluster_spec_num_tasks(spec, names[job], &count) == LS_OK && count == table->counts[job]);
    EXPECT(ls_cluster_spec_task_indices(spec, names[job], MOST, indices) == LS_OK);
    for (int i = 0; i < MOST; i++) {
        const char *wanted = table->addresses[job][i];
        ls_status status = ls_cluster_spec_task_address(spec, names[job], i, &address);
        EXPECT(status == (*wanted ? LS_OK : LS_NOT_FOUND));
        if (*wanted) EXPECT(!strcmp(address, wanted) && indices[next++] == i);
    }
    EXPECT(next == count);
    indices[0] = -7;
    EXPECT(ls_cluster_spec_task_indices(spec, names[job], 0, indices) == LS_OK && indices[0] == -7);
}

static void check_spec(uint64_t seed, const ls_cluster_spec *spec, const struct table *table) {
    int jobs = 0;
    for (int job = 0; job < JOBS; job++) {
        check_job(seed, spec, table, job);
        if (!table->counts[job]) continue;
        const char *name = ls_cluster_spec_job(spec, jobs++);
        EXPECT(name && !strcmp(name, names[job]));
    }
    EXPECT(ls_cluster_spec_num_jobs(spec) == jobs && !ls_cluster_spec_job(spec, jobs) &&
           !ls_cluster_spec_job(spec, -1));
}

static void check_json(uint64_t seed, const ls_cluster_spec *spec, const struct table *table) {
    static char config[1 << 15];
    char *json = NULL, *again = NULL;
    ls_cluster_spec *other = NULL, *whole = NULL;
    EXPECT(ls_cluster_spec_json(spec, &json) == LS_OK);
    trial_note(json);
    EXPECT(ls_cluster_spec_new(json, &other) == LS_OK && ls_cluster_spec_equal(spec, other));
    check_spec(seed, other, table);
    EXPECT(ls_cluster_spec_json(other, &again) == LS_OK && !strcmp(json, again));
    (void)snprintf(config, sizeof(config), "{\"cluster\": %s, \"task\": {\"type\": \"ps\", \"index\": 0}}", json);
    EXPECT(ls_cluster_spec_new(config, &whole) == LS_OK && ls_cluster_spec_equal(whole, spec));
    ls_cluster_spec_free(other);
    ls_cluster_spec_free(whole);
    ls_memory_free(json);
    ls_memory_free(again);
}

/* A refusal changes nothing; one task more makes another cluster. */
static void check_refusals(uint64_t seed, struct draw *draw, ls_cluster_spec *spec, struct table *table) {
    ls_cluster_spec *other = make(seed, draw, table);
    EXPECT(ls_cluster_spec_equal(spec, other) && ls_cluster_spec_equal(other, spec));
    if (table->count) {
        int task = table->order[draw_below(draw, (size_t)table->count)], index = task % MOST;
        const char *job = names[task / MOST], *address = table->addresses[task / MOST][index];
        EXPECT_ERROR(ls_cluster_spec_add(spec, job, index, "new:1"), LS_INVALID_ARGUMENT, "already");
        EXPECT_ERROR(ls_cluster_spec_add(spec, "another", 3, address), LS_INVALID_ARGUMENT, "'another', index 3",
                     address);
        EXPECT(ls_cluster_spec_equal(spec, other));
    }
    EXPECT_ERROR(ls_cluster_spec_add(spec, "ps", -1, "new:1"), LS_INVALID_ARGUMENT, "'ps'", "-1");
    EXPECT_ERROR(ls_cluster_spec_add(spec, "ps", 77, "new"), LS_INVALID_ARGUMENT, "'ps', index 77", "'new'", "port");
    EXPECT_ERROR(ls_cluster_spec_add(spec, "", 0, "new:1"), LS_INVALID_ARGUMENT, "no name");
    EXPECT(ls_cluster_spec_equal(spec, other));
    EXPECT(ls_cluster_spec_add(other, "ps", 500000000, "new:1") == LS_OK);
    EXPECT(!ls_cluster_spec_equal(spec, other) && !ls_cluster_spec_equal(other, spec));
    EXPECT(ls_cluster_spec_add(spec, "ps", 500000000, "new:2") == LS_OK && !ls_cluster_spec_equal(spec, other));
    ls_cluster_spec_free(other);
}

static void check_broken(uint64_t seed) {
    static const struct {
        const char *text, *says, *too;
    } broken[] = {
        {"[]", "no object", "worker"},
        {"{\"worker\": \"a:1\"}", "'worker'", "not a list"},
        {"{\"worker\": [\"a:1\", 2]}", "'worker', index 1", "2"},
        {"{\"ps\": {\"x\": \"a:1\"}}", "'ps'", "'x'"},
        {"{\"ps\": {\"1\": \"a:1\", \"1\": \"b:1\"}}", "'ps'", "index 1 already"},
        {"{\"ps\": [\"a:1\"], \"ps\": [\"b:1\"]}", "'ps'", "twice"},
        {"{\"ps\": [\"a:1\"], \"worker\": [\"A.:1\"]}", "'worker', index 0", "'ps', index 0"},
        {"{\"ps\": [\"a:1\",]}", "line 1, column", "trailing comma"},
        {"", "cluster", "empty"},
    };
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        ls_cluster_spec *spec = NULL;
        trial_note(broken[i].text);
        EXPECT_ERROR(ls_cluster_spec_new(broken[i].text, &spec), LS_INVALID_ARGUMENT, broken[i].says, broken[i].too);
        EXPECT(!spec);
    }
}

static long one_cluster(uint64_t seed) {
    static struct table table;
    struct draw draw = draw_from(seed, 0);
    draw_table(&draw, &table);
    ls_cluster_spec *spec = make(seed, &draw, &table);
    check_spec(seed, spec, &table);
    check_json(seed, spec, &table);
    check_refusals(seed, &draw, spec, &table);
    check_broken(seed);
    ls_cluster_spec_free(spec);
    return 1;
}

int main(int argc, char **argv) {
    return trial_main(argc, argv, "property/cluster_spec", one_cluster);
}
