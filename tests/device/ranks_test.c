/* Collectives between one to four processes with a rank each, as workers have: each collective, type and number of
 * elements, to the bit. NCCL takes ranks of different host ids on one GPU, so one is enough. */
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/gpu.h"
#include "device/whole_numbers.h"
#include "harness.h"

#define MOST  4
#define LIMIT 60 /* seconds, for a process */
#define COUNT 70001

/* Of all processes. */
static struct shared {
    _Atomic int made; /* the id */
    char id[LS_DEVICE_GROUP_ID];
} * shared;

/* Of a process, which is a rank. */
static struct {
    const struct ls_device_group_ops *ops;
    struct ls_device *device;
    struct ls_device_group *group;
    int rank, total;
    bool emulated;
    void *input, *output; /* device memory */
    double *host;
} at;

__attribute__((format(printf, 2, 3))) static void require(bool truth, const char *format, ...) {
    va_list arguments;
    if (truth) return;
    va_start(arguments, format);
    (void)fprintf(stderr, "rank %d of %d: ", at.rank, at.total);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputs("\n", stderr);
    _exit(1);
}

static void ok(ls_status status) {
    require(!status, "%s", ls_error());
}

static void pause_shortly(void) {
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void wait_until(ls_status (*ask)(struct ls_device_group *group, bool *done), const char *what) {
    int64_t deadline = ls_deadline_in(LIMIT / 2.0);
    for (bool done = false; !done;) {
        ok(ask(at.group, &done));
        require(done || ls_now() < deadline, "%s has not come", what);
        if (!done) pause_shortly();
    }
}

/* ---- numbers ---- */

static double reduced(ls_reduce_op op, size_t i) {
    double sum = value(0, i), least = sum, most = sum;
    for (int r = 1; r < at.total; r++) {
        double next = value(r, i);
        sum += next, least = next < least ? next : least, most = next > most ? next : most;
    }
    return op == LS_SUM ? sum : op == LS_MIN ? least : op == LS_MAX ? most : sum / at.total;
}

static void bring(ls_dtype dtype, size_t count) {
    for (size_t i = 0; i < count; i++) put(dtype, at.host, i, value(at.rank, i));
    ok(at.device->ops->copy_in(at.device, at.input, at.host, count * ls_dtype_size(dtype)));
    ok(at.ops->after(at.group, 0, (int)dtype));
    ok(at.ops->wait(at.group, (int)dtype));
}

static void fetch(ls_dtype dtype, const void *from, size_t count) {
    wait_until(at.ops->finished, "a collective's end");
    ok(at.ops->settle(at.group, 0));
    ok(at.device->ops->copy_out(at.device, at.host, from, count * ls_dtype_size(dtype)));
}

static void expect(const char *what, ls_dtype dtype, size_t i, double wanted) {
    double found = get(dtype, at.host, i);
    require(found == wanted, "%s of %s: [%zu] is %g, but must be %g", what, ls_dtype_name(dtype), i, found, wanted);
}

/* ---- collectives ---- */

static void all_reduce(ls_dtype dtype, ls_reduce_op op, size_t count) {
    bring(dtype, count);
    ok(at.ops->all_reduce(at.group, op, dtype, &at.input, count));
    fetch(dtype, at.input, count);
    for (size_t i = 0; i < count; i++) expect("all-reduce", dtype, i, reduced(op, i));
}

static void others(ls_dtype dtype, size_t count) {
    const void *inputs[] = {at.input};
    int root = at.total - 1;
    bring(dtype, count * (size_t)at.total);
    ok(at.ops->all_gather(at.group, dtype, inputs, &at.output, count));
    fetch(dtype, at.output, count * (size_t)at.total);
    for (size_t i = 0; i < count * (size_t)at.total; i++)
        expect("all-gather", dtype, i, value((int)(i / count), i % count));
    ok(at.ops->reduce_scatter(at.group, LS_SUM, dtype, inputs, &at.output, count));
    fetch(dtype, at.output, count);
    for (size_t i = 0; i < count; i++) expect("reduce-scatter", dtype, i, reduced(LS_SUM, (size_t)at.rank * count + i));
    ok(at.ops->broadcast(at.group, root, dtype, &at.input, count));
    fetch(dtype, at.input, count);
    for (size_t i = 0; i < count; i++) expect("broadcast", dtype, i, value(root, i));
}

static void collect(void) {
    static const ls_dtype types[] = {LS_FLOAT32, LS_FLOAT64, LS_INT32, LS_INT64, LS_BFLOAT16, LS_FLOAT16};
    static const size_t counts[] = {1, 7, 1024, COUNT};
    for (int t = 0; t < (at.emulated ? 4 : 6); t++) /* whose NCCL has no 16 bits */
        for (int c = 0; c < (SANITIZED ? 3 : 4); c++) {
            all_reduce(types[t], LS_SUM, counts[c]);
            all_reduce(types[t], LS_MIN, counts[c]);
            all_reduce(types[t], LS_MAX, counts[c]);
            if (types[t] == LS_FLOAT64 && at.total != 3)
                all_reduce(types[t], LS_MEAN, counts[c]); /* exact thirds: none */
            others(types[t], counts[c]);
        }
}

/* ---- processes ---- */

static void open_device(void) {
    char name[32], text[1024];
    const char *why = "";
    int count = 0;
    at.ops = ls_gpu_group(&why);
    require(at.ops != NULL, "%s", why);
    (void)snprintf(name, sizeof(name), "gpu:%d", at.rank % ls_gpu_kind.count());
    ok(ls_devices_open(name, 1, &at.device, &count));
    ls_gpu_kind.describe(text, sizeof(text));
    at.emulated = strstr(text, "emulated") != NULL;
    ok(at.device->ops->allocate(at.device, MOST * COUNT * sizeof(double), &at.input));
    ok(at.device->ops->allocate(at.device, MOST * COUNT * sizeof(double), &at.output));
    at.host = calloc(MOST * COUNT, sizeof(double));
    require(at.host != NULL, "no memory");
}

static void open_group(void) {
    const struct ls_device_group_config config = {&at.device, 1, at.rank, at.total, shared->id};
    int64_t deadline = ls_deadline_in(LIMIT / 2.0);
    if (!at.rank) ok(at.ops->new_id(shared->id)), atomic_store(&shared->made, 1);
    while (!atomic_load(&shared->made)) {
        require(ls_now() < deadline, "no id has come");
        pause_shortly();
    }
    ok(at.ops->open(&config, &at.group));
    wait_until(at.ops->ready, "the group");
}

static void be_rank(int rank, int total) {
    char name[32];
    at.rank = rank, at.total = total;
    (void)snprintf(name, sizeof(name), "rank-%d", rank);
    (void)setenv("NCCL_HOSTID", name, 1);
    (void)setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    (void)setenv("NCCL_NET", "Socket", 1);
    open_device();
    open_group();
    collect();
    at.ops->abort(at.group);
    at.ops->close(at.group);
    at.device->ops->release(at.device, at.input);
    at.device->ops->release(at.device, at.output);
    ls_device_close(at.device);
    free(at.host);
    _exit(0);
}

/* Its exit status, or -1 for one that does not end. */
static int await(pid_t process, int64_t deadline) {
    int status = 0;
    while (waitpid(process, &status, WNOHANG) == 0) {
        if (ls_now() >= deadline) {
            (void)kill(process, SIGKILL);
            (void)waitpid(process, &status, 0);
            return -1;
        }
        pause_shortly();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_RANGE(collectives_between_processes_are_exact, 1, MOST + 1) {
    pid_t processes[MOST];
    int64_t deadline = ls_deadline_in(LIMIT);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    for (int rank = 0; rank < _i; rank++) {
        processes[rank] = fork(); /* nobody here has called CUDA */
        if (!processes[rank]) be_rank(rank, _i);
        ck_assert_int_gt(processes[rank], 0);
    }
    for (int rank = 0; rank < _i; rank++) ck_assert_int_eq(await(processes[rank], deadline), 0);
    (void)munmap(shared, sizeof(*shared));
}

TESTS("ranks", .seconds = 2 * LIMIT)
