/* The memory that shared memory costs each of many processes of a host, and the descriptors. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collective/collectives.h"
#include "collective/given.h"
#include "collective/shm/shared.h"
#include "harness.h"

enum { WORKERS = 32, BUCKETS = 4, COUNT = 100000, CALLS = 3 };
#define PAGE ((size_t)4096)

static struct ls_link *links[WORKERS][WORKERS];

/* Bytes of shared memory that are resident in this process. */
static size_t resident(void) {
    char line[512];
    size_t kilobytes = 0, value;
    bool shared = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file)) {
        if (strchr(line, '-') && strstr(line, " r")) shared = strstr(line, "memfd:lockstep") != NULL;
        if (strchr(line, '-') && strstr(line, " ---")) shared = false;
        if (shared && sscanf(line, "Rss: %zu kB", &value) == 1) kilobytes += value;
    }
    (void)fclose(file);
    return kilobytes * 1024;
}

static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder)) count++;
    (void)closedir(folder);
    return count;
}

static ls_status reduce_many(struct ls_group *group, float *data, size_t count) {
    for (size_t i = 0; i < count; i++) data[i] = (float)(ls_group_rank(group) + 1);
    const void *input = data;
    void *output = data;
    const struct ls_all_reduce call = {.name = "gradients", .count = count, .inputs = &input, .outputs = &output};
    ls_status status = ls_group_all_reduce(group, &call);
    for (size_t i = 0; i < count && !status; i++)
        if (data[i] != WORKERS * (WORKERS + 1) / 2) _exit(100);
    return status;
}

/* Every way through the board: slots, and all of every stage. */
static ls_status use_board(struct ls_group *group) {
    float *data = calloc(COUNT, sizeof(*data)), *all = calloc((size_t)COUNT * WORKERS, sizeof(*all));
    size_t counts[WORKERS];
    ls_status status = LS_OK;
    if (!data || !all) _exit(101);
    for (int i = 0; i < CALLS && !status; i++) status = reduce_many(group, data, 5);
    for (int i = 0; i < CALLS && !status; i++) status = reduce_many(group, data, (size_t)COUNT - (size_t)i * 777);
    for (size_t each = 1; each <= COUNT && !status; each = each * 10) {
        for (int i = 0; i < WORKERS; i++) counts[i] = each;
        const struct ls_reduce_scatter scatter = {.name = "parts", .counts = counts, .input = all, .output = data};
        status = ls_group_all_gather(group, LS_ALL_GATHER("gather", data, all, counts));
        if (!status) status = ls_group_reduce_scatter(group, &scatter);
    }
    for (int root = 0; root < WORKERS && !status; root++)
        status = ls_group_broadcast(group, LS_BROADCAST("weights", data, COUNT, LS_FLOAT32, root));
    if (!status) status = ls_group_barrier(group, "end");
    free(data);
    free(all);
    return status;
}

static ls_status use_region(struct ls_group *group) {
    void *memory = NULL;
    ls_status status = ls_group_share(group, COUNT * sizeof(float), &memory);
    float *gradients = memory;
    for (int i = 0; i < CALLS * BUCKETS && !status; i++)
        status = reduce_many(group, gradients + (size_t)(i % BUCKETS) * (COUNT / BUCKETS), COUNT / BUCKETS);
    return status;
}

static void expect_at_most(size_t bytes, size_t most, int rank, const char *what) {
    if (bytes <= most) return;
    (void)fprintf(stderr, "# rank %d: %s: %zu bytes, at most %zu\n", rank, what, bytes, most);
    _exit(102);
}

static void worker_main(int rank) {
    struct ls_abort *abort = NULL;
    struct ls_group *group = NULL;
    for (int i = 0; i < WORKERS; i++)
        for (int j = 0; j < WORKERS; j++)
            if (i != rank && i != j) links[i][j]->ops->close(links[i][j]);
    if (ls_abort_new(&abort)) _exit(103);
    int before = descriptors();
    struct ls_group_config config = {
        .rank = rank, .size = WORKERS, .source = given_links(links[rank], WORKERS), .abort = abort, .timeout = 60};
    if (ls_group_new(&config, &group) || ls_group_connect(group)) _exit(104);
    if (!ls_group_is_one_host(group)) _exit(105);
    if (use_board(group)) _exit(106);
    size_t board = resident(), gradients = COUNT * sizeof(float), others = WORKERS - 1;
    expect_at_most(board, (others + 1) * 64 * 1024, rank, "board");
    if (use_region(group)) _exit(107);
    /* the own gradients; of each other worker a part of each bucket, and the rest of the pages where it begins and ends
     */
    size_t parts = others * (gradients / WORKERS + BUCKETS * 2 * PAGE);
    expect_at_most(resident() - board, gradients + PAGE + parts, rank, "gradients");
    if (resident() - board < gradients) _exit(108); /* it is measured */
    if (descriptors() != before) _exit(109);
    if (ls_group_barrier(group, "end")) _exit(110);
    _exit(0);
}

TEST(a_worker_of_many_maps_little_of_the_others) {
    struct rlimit limit;
    pid_t pids[WORKERS];
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int a = 0; a < WORKERS; a++)
        for (int b = a + 1; b < WORKERS; b++) {
            struct ls_link *ends[2];
            local_pair(ends);
            links[a][b] = ends[0];
            links[b][a] = ends[1];
        }
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (!pids[i]) worker_main(i);
    }
    for (int a = 0; a < WORKERS; a++)
        for (int b = 0; b < WORKERS; b++)
            if (a != b) links[a][b]->ops->close(links[a][b]);
    for (int i = 0; i < WORKERS; i++) {
        int state = 0;
        ck_assert_int_eq(waitpid(pids[i], &state, 0), pids[i]);
        ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "rank %d: state %x", i, state);
    }
}

/* bench/RESULTS.md, "Memory of a host's workers", has the formula. */
TEST(the_board_is_small_for_any_number_of_workers) {
    for (int workers = 2; workers <= 1024; workers++) {
        size_t small = ls_shared_small_bytes(workers), stage = ls_shared_stage_bytes(workers);
        size_t each = sizeof(struct ls_control) + 2 * small + 2 * stage;
        ck_assert_uint_eq(small % 64 + stage % 64, 0);
        ck_assert_uint_ge(stage, (size_t)workers * 64); /* a line for each in a reduce-scatter */
        if (workers <= LS_SHARED_FEW) ck_assert_uint_eq(stage, 512 * 1024);
        if (workers > LS_SHARED_FEW && workers < 32) ck_assert_uint_le(each * (size_t)workers, 7 << 20);
        if (workers >= 32 && workers <= 256) ck_assert_uint_le(each, 64 * 1024);
    }
}

TESTS("collective/memory", .seconds = 120)
