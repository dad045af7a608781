/* Collectives between devices of one process, by the plugin that LOCKSTEP_PLUGIN names: sums to the bit, what they wait
 * for, what is seen behind them, and that an abort ends what would wait for ever. On two devices, or where there is one
 * on that. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "device/gpu.h"
#include "device/whole_numbers.h"
#include "harness.h"

enum { MOST = 2, COUNT = 20001, BYTES = 8 * MOST * COUNT };

static struct {
    const struct ls_device_group_ops *ops;
    struct ls_device *devices[MOST];
    int ranks; /* devices that there are */
    struct ls_device_group *group;
    void *inputs[MOST], *outputs[MOST]; /* device memory */
    double host[MOST * COUNT];
} at;

/* True if the answer becomes true in time. */
static bool comes(ls_status (*ask)(struct ls_device_group *group, bool *done), double seconds) {
    int64_t deadline = ls_deadline_in(seconds);
    bool done = false;
    while (!done && ls_now() < deadline) {
        assert_ok(ask(at.group, &done));
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return done;
}

static void open_group(int count, int total) {
    char id[LS_DEVICE_GROUP_ID];
    const struct ls_device_group_config config = {at.devices, count, 0, total, id};
    assert_ok(at.ops->new_id(id));
    assert_ok(at.ops->open(&config, &at.group));
}

/* Behind the ops, as it must be. */
static void abort_group(void) {
    for (int r = 0; r < at.ranks; r++) assert_ok(ls_device_wait(at.devices[r]));
    at.ops->abort(at.group);
}

static void end_group(void) {
    if (!at.group) return;
    abort_group();
    at.ops->close(at.group);
    at.group = NULL;
}

static void setup(void) {
    const char *why = "";
    at.ops = ls_gpu_group(&why);
    ck_assert_msg(at.ops != NULL, "%s", why);
    assert_ok(ls_devices_open(ls_gpu_kind.count() < MOST ? "gpu:0" : "gpu:0,gpu:1", 1, at.devices, &at.ranks));
    for (int r = 0; r < at.ranks; r++) {
        assert_ok(at.devices[r]->ops->allocate(at.devices[r], BYTES, &at.inputs[r]));
        assert_ok(at.devices[r]->ops->allocate(at.devices[r], BYTES, &at.outputs[r]));
    }
}

static void teardown(void) {
    end_group();
    for (int r = 0; r < at.ranks; r++) {
        at.devices[r]->ops->release(at.devices[r], at.inputs[r]);
        at.devices[r]->ops->release(at.devices[r], at.outputs[r]);
        ls_device_close(at.devices[r]);
    }
}

/* Queued on each device, with a mark behind it. */
static void write_inputs(ls_dtype dtype, size_t count, int mark) {
    for (int r = 0; r < at.ranks; r++) {
        for (size_t i = 0; i < count; i++) put(dtype, at.host, i, value(r, i));
        assert_ok(at.devices[r]->ops->copy_in(at.devices[r], at.inputs[r], at.host, count * ls_dtype_size(dtype)));
        assert_ok(at.ops->after(at.group, r, mark));
    }
    assert_ok(at.ops->wait(at.group, mark));
}

static void read_back(ls_dtype dtype, int rank, const void *array, size_t count) {
    assert_ok(at.ops->settle(at.group, rank));
    assert_ok(at.devices[rank]->ops->copy_out(at.devices[rank], at.host, array, count * ls_dtype_size(dtype)));
}

static double reduced(ls_reduce_op op, size_t i) {
    double a = value(0, i), b = value(1, i);
    if (at.ranks == 1) return a;
    return op == LS_SUM ? a + b : op == LS_MIN ? (a < b ? a : b) : op == LS_MAX ? (a > b ? a : b) : (a + b) / 2;
}

static void all_reduce(ls_dtype dtype, ls_reduce_op op) {
    write_inputs(dtype, COUNT, (int)dtype);
    assert_ok(at.ops->all_reduce(at.group, op, dtype, at.inputs, COUNT));
    ck_assert(comes(at.ops->finished, 20));
    for (int r = 0; r < at.ranks; r++) {
        read_back(dtype, r, at.inputs[r], COUNT);
        for (size_t i = 0; i < COUNT; i++) ck_assert_double_eq(get(dtype, at.host, i), reduced(op, i));
    }
}

static const ls_dtype types[] = {LS_FLOAT32, LS_FLOAT64, LS_INT32, LS_INT64};

TEST(sums) {
    open_group(at.ranks, at.ranks);
    ck_assert(comes(at.ops->ready, 20));
    for (int t = 0; t < 4; t++) {
        all_reduce(types[t], LS_SUM);
        all_reduce(types[t], LS_MIN);
        all_reduce(types[t], LS_MAX);
    }
    all_reduce(LS_FLOAT32, LS_MEAN);
    all_reduce(LS_FLOAT64, LS_MEAN);
}

TEST(others) {
    open_group(at.ranks, at.ranks);
    int last = at.ranks - 1;
    ck_assert(comes(at.ops->ready, 20));
    for (int t = 0; t < 4; t++) {
        ls_dtype dtype = types[t];
        write_inputs(dtype, 2 * COUNT, 5);
        assert_ok(at.ops->all_gather(at.group, dtype, (const void *const *)at.inputs, at.outputs, COUNT));
        ck_assert(comes(at.ops->finished, 20));
        read_back(dtype, last, at.outputs[last], (size_t)at.ranks * COUNT);
        for (int r = 0; r < at.ranks; r++)
            for (size_t i = 0; i < COUNT; i++)
                ck_assert_double_eq(get(dtype, at.host, (size_t)r * COUNT + i), value(r, i));
        assert_ok(at.ops->reduce_scatter(at.group, LS_SUM, dtype, (const void *const *)at.inputs, at.outputs, COUNT));
        assert_ok(at.ops->broadcast(at.group, last, dtype, at.inputs, COUNT));
        ck_assert(comes(at.ops->finished, 20));
        read_back(dtype, last, at.outputs[last], COUNT);
        for (size_t i = 0; i < COUNT; i++)
            ck_assert_double_eq(get(dtype, at.host, i), reduced(LS_SUM, (size_t)last * COUNT + i));
        read_back(dtype, 0, at.inputs[0], COUNT);
        for (size_t i = 0; i < COUNT; i++) ck_assert_double_eq(get(dtype, at.host, i), value(last, i));
    }
}

/* One rank of two: nobody else comes. */
TEST(alone) {
    open_group(1, 2);
    ck_assert(!comes(at.ops->ready, 0.2));
    int64_t began = ls_now();
    at.ops->abort(at.group);
    ck_assert_int_lt(ls_now() - began, LS_SECOND);
    assert_ok(ls_device_synchronize(at.devices[0]));
}

static void begin_sum(void) {
    open_group(at.ranks, at.ranks);
    ck_assert(comes(at.ops->ready, 20));
    write_inputs(LS_FLOAT32, COUNT, 0);
    assert_ok(at.ops->all_reduce(at.group, LS_SUM, LS_FLOAT32, at.inputs, COUNT));
}

/* The devices compute on after an abort, and a new group works. */
TEST(aborted) {
    begin_sum();
    end_group();
    for (int r = 0; r < at.ranks; r++) assert_ok(ls_device_synchronize(at.devices[r]));
    open_group(at.ranks, at.ranks);
    ck_assert(comes(at.ops->ready, 20));
    all_reduce(LS_FLOAT32, LS_SUM);
}

/* Without its devices' help. */
TEST(forgotten) {
    begin_sum();
    abort_group();
    for (int r = 0; r < at.ranks; r++) assert_ok(ls_device_synchronize(at.devices[r]));
    at.ops->forget(at.group);
    open_group(at.ranks, at.ranks);
    ck_assert(comes(at.ops->ready, 20));
    all_reduce(LS_FLOAT32, LS_SUM);
}

TESTS("group", .seconds = 120, .before = setup, .after = teardown)
