/* Mirrored variables, reduce and gather, on several layouts: the numbers of TensorFlow's own tests (vars_test,
 * values_test, strategy_gather_test) and the layouts they cannot have. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "strategy/workers.h"

static const struct layout {
    int workers, devices[3];
} layouts[] = {{1, {1}}, {1, {2}}, {2, {1, 1}}, {1, {4}}, {2, {1, 2}}, {3, {1, 1, 1}}};
#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static void on_every_layout(worker_fn *fn) {
    for (size_t i = 0; i < LAYOUTS; i++) {
        struct worker_cluster cluster = {.count = layouts[i].workers, .fn = fn};
        memcpy(cluster.devices, layouts[i].devices, sizeof(layouts[i].devices));
        run_workers_ok(&cluster);
    }
}

/* A write of a step into a variable. */
struct write {
    ls_variable *variable;
    ls_status (*assign)(ls_variable *, ls_replica *, const void *);
    float base, slope; /* value = base + slope * replica id */
};

static ls_status write_value(ls_replica *replica, void *context) {
    const struct write *write = context;
    float value = write->base + write->slope * (float)ls_replica_id(replica);
    return write->assign(write->variable, replica, &value);
}

static void check_write(struct worker *worker, const char *name, ls_aggregation aggregation, struct write write,
                        float initial, float want) {
    float value;
    ls_status st = ls_variable_new(worker->strategy, name, LS_VARIABLE(.initial = &initial, .aggregation = aggregation),
                                   &write.variable);
    assert_ok(st);
    ck_assert_msg(!(st = ls_strategy_run(worker->strategy, write_value, &write)), "%s", ls_error());
    assert_ok(ls_variable_read(write.variable, &value));
    ck_assert_msg(value == want, "%s on %d replicas: %g, want %g", name, ls_num_replicas_in_sync(worker->strategy),
                  (double)value, (double)want);
}

static ls_status do_nothing(ls_replica *replica, void *context) {
    (void)replica, (void)context;
    return LS_OK;
}

/* As from a table without an order: each worker makes them in another one, and some after others are known already. */
static ls_status make_in_own_order(struct worker *worker) {
    enum { COUNT = 4 };
    static const char *const names[COUNT] = {"b", "a", "d", "c"};
    ls_variable *variables[COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT / 2; i++) {
            int n = 2 * round + (worker->rank % 2 ? 1 - i : i);
            float initial = (float)(worker->rank * 100 + n + 1);
            ls_status st = ls_variable_new(worker->strategy, names[n], LS_VARIABLE(.initial = &initial), &variables[n]);
            assert_ok(st);
        }
        assert_ok(ls_strategy_run(worker->strategy, do_nothing, NULL));
    }
    for (int n = 0; n < COUNT; n++) {
        float value;
        assert_ok(ls_variable_read(variables[n], &value));
        ck_assert_msg(value == (float)(n + 1), "'%s' on rank %d: %g", names[n], worker->rank, (double)value);
    }
    return LS_OK;
}

TEST(made_in_another_order) {
    on_every_layout(make_in_own_order);
}

/* Replicas write their ids: with two of them the values of TensorFlow's tests (0.5, 1.5, 4.5). */
static ls_status write_mirrored(struct worker *worker) {
    int n = ls_num_replicas_in_sync(worker->strategy);
    float mean = (float)(n - 1) / 2, sum = (float)(n * (n - 1)) / 2;
    check_write(worker, "mean", LS_AGGREGATE_MEAN, (struct write){0, ls_variable_assign, 0, 1}, 9, mean);
    check_write(worker, "mean_add", LS_AGGREGATE_MEAN, (struct write){0, ls_variable_assign_add, 0, 1}, 1, 1 + mean);
    check_write(worker, "mean_sub", LS_AGGREGATE_MEAN, (struct write){0, ls_variable_assign_sub, 0, 1}, 5, 5 - mean);
    check_write(worker, "sum", LS_AGGREGATE_SUM, (struct write){0, ls_variable_assign, 0, 1}, 9, sum);
    check_write(worker, "first", LS_AGGREGATE_ONLY_FIRST_REPLICA, (struct write){0, ls_variable_assign, 42, 1}, 9, 42);
    return LS_OK;
}

TEST(mirrored_writes) {
    on_every_layout(write_mirrored);
}

static ls_status add_denormal(ls_replica *replica, void *context) {
    const uint32_t three = 3; /* times the smallest; in memory, for a replica on a CPU computes without denormals */
    return ls_variable_assign_add(context, replica, &three);
}

/* As a replica on a GPU, and a sum between replicas, have it. */
static ls_status add_denormals(struct worker *worker) {
    ls_variable *variable = NULL;
    uint32_t bits = 4;
    ls_status st =
        ls_variable_new(worker->strategy, "tiny",
                        LS_VARIABLE(.initial = &bits, .aggregation = LS_AGGREGATE_ONLY_FIRST_REPLICA), &variable);
    if (!st) st = ls_strategy_run(worker->strategy, add_denormal, variable);
    if (!st) st = ls_variable_read(variable, &bits);
    ck_assert_uint_eq(bits, 7);
    return st;
}

TEST(denormals_are_kept) {
    on_every_layout(add_denormals);
}

static ls_status refuse_none(struct worker *worker) {
    struct write write = {.assign = ls_variable_assign};
    ls_variable *again;
    assert_ok(ls_variable_new(worker->strategy, "none", NULL, &write.variable));
    ck_assert_int_eq(ls_variable_new(worker->strategy, "none", NULL, &again), LS_ALREADY_EXISTS);
    ck_assert_int_eq(ls_variable_new(worker->strategy, "", NULL, &again), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_variable_new(worker->strategy, "bad", LS_VARIABLE(.shape = {1, {-2}}), &again),
                     LS_INVALID_ARGUMENT);
    assert_refused(ls_strategy_run(worker->strategy, write_value, &write), "'none'");
    return LS_OK;
}

TEST(none_is_refused) {
    struct worker_cluster cluster = {.count = 1, .devices = {2}, .fn = refuse_none};
    run_workers_ok(&cluster);
}

static ls_status write_on_read(struct worker *worker) {
    int n = ls_num_replicas_in_sync(worker->strategy);
    float value = 0, seven = 7;
    struct write write = {.assign = ls_variable_assign_add, .base = 3, .slope = 1};
    ls_status st =
        ls_variable_new(worker->strategy, "counts",
                        LS_VARIABLE(.synchronization = LS_ON_READ, .aggregation = LS_AGGREGATE_SUM), &write.variable);
    if (!st) st = ls_strategy_run(worker->strategy, write_value, &write);
    if (!st) st = ls_variable_read(write.variable, &value);
    ck_assert_float_eq(value, (float)(3 * n + n * (n - 1) / 2)); /* 3 and 4 make 7 */
    if (!st) st = ls_variable_set(write.variable, &seven);
    if (!st) st = ls_variable_read(write.variable, &value);
    ck_assert_float_eq_tol(value, 7, 1e-6F); /* each copy holds 7 / n */
    if (!st)
        st = ls_variable_new(worker->strategy, "hidden", LS_VARIABLE(.synchronization = LS_ON_READ), &write.variable);
    ck_assert_int_eq(ls_variable_read(write.variable, &value), LS_INVALID_ARGUMENT);
    return st;
}

TEST(on_read) {
    on_every_layout(write_on_read);
}

/* Every worker gives other initial values: the chief's count, in one broadcast for all variables and types. */
static ls_status start_from_chief(struct worker *worker) {
    ls_variable *a, *b, *c;
    float first[3] = {1, 2, (float)worker->rank}, read_a[3];
    uint16_t second = (uint16_t)(7 + worker->rank), read_b;
    int64_t third = 100 - worker->rank, read_c;
    ls_status st = ls_variable_new(worker->strategy, "a", LS_VARIABLE(.shape = LS_SHAPE(3), .initial = first), &a);
    if (!st) st = ls_variable_new(worker->strategy, "b", LS_VARIABLE(.dtype = LS_FLOAT16, .initial = &second), &b);
    if (!st) st = ls_variable_new(worker->strategy, "c", LS_VARIABLE(.dtype = LS_INT64, .initial = &third), &c);
    if (!st) st = ls_variable_read(c, &read_c);
    if (!st) st = ls_variable_read(a, read_a);
    if (!st) st = ls_variable_read(b, &read_b);
    if (st) return st;
    ck_assert_float_eq(read_a[2], 0);
    ck_assert_uint_eq(read_b, 7);
    ck_assert_int_eq(read_c, 100);
    return LS_OK;
}

TEST(the_chief_initializes) {
    on_every_layout(start_from_chief);
}

static ls_status other_variables(struct worker *worker) {
    ls_variable *variable;
    float value;
    ls_status st = ls_variable_new(worker->strategy, "w", LS_VARIABLE(.shape = LS_SHAPE(2 + worker->rank)), &variable);
    return st ? st : ls_variable_read(variable, &value);
}

TEST(different_variables_are_named) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = other_variables};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error, "variable w"), "%s", cluster.workers[i].error);
        ck_assert_msg(strstr(cluster.workers[i].error, "(3)"), "%s", cluster.workers[i].error);
    }
}

/* Replica r has r + 1 rows of 2: uneven along axis 0. */
static ls_status reduce_and_gather(struct worker *worker) {
    ls_strategy *strategy = worker->strategy;
    int n = ls_num_replicas_in_sync(strategy), local = ls_num_local_replicas(strategy), first = 0, rows = 0;
    float data[4][20], output[2], want[2] = {0, 0};
    const void *values[4];
    ls_shape shapes[4], shape;
    static const int before[3][3] = {{0, 0, 0}, {0, 1, 1}, {0, 1, 2}};
    first = worker->count == 1 ? 0 : before[worker->count - 1][worker->rank];
    for (int r = 0; r < n; r++)
        for (int row = 0; row <= r; row++, rows++)
            for (int c = 0; c < 2; c++) want[c] += (float)(10 * r + row + 100 * c);
    for (int i = 0; i < local; i++) {
        int r = first + i;
        shapes[i] = LS_SHAPE(r + 1, 2);
        values[i] = data[i];
        for (int row = 0; row <= r; row++)
            for (int c = 0; c < 2; c++) data[i][row * 2 + c] = (float)(10 * r + row + 100 * c);
    }
    assert_ok(ls_reduce_axis(strategy, LS_MEAN, LS_FLOAT32, values, shapes, 0, output));
    for (int c = 0; c < 2; c++) ck_assert_float_eq_tol(output[c], want[c] / (float)rows, 1e-4F);
    float *gathered = NULL;
    assert_ok(ls_gather(strategy, LS_FLOAT32, values, shapes, 0, (void **)&gathered, &shape));
    ck_assert_int_eq(shape.dims[0], rows);
    int at = 0;
    for (int r = 0; r < n; r++)
        for (int row = 0; row <= r; row++, at++) ck_assert_float_eq(gathered[2 * at], (float)(10 * r + row));
    ls_memory_free(gathered);
    return LS_OK;
}

TEST(reduce_axis_and_gather) {
    on_every_layout(reduce_and_gather);
}

/* Along axis 1, replica r has (2, r + 1): rows must be interleaved. */
static ls_status gather_columns(struct worker *worker) {
    int64_t mine[2][2] = {{1, 2}, {3, 4}}, one[2][1] = {{5}, {6}}, *gathered = NULL;
    const void *value = worker->rank ? (void *)mine : (void *)one;
    ls_shape own = worker->rank ? LS_SHAPE(2, 2) : LS_SHAPE(2, 1), shape;
    ls_status st = ls_gather(worker->strategy, LS_INT64, &value, &own, 1, (void **)&gathered, &shape);
    if (st) return st;
    static const int64_t want[6] = {5, 1, 2, 6, 3, 4};
    ck_assert_int_eq(shape.dims[1], 3);
    ck_assert_mem_eq(gathered, want, sizeof(want));
    ls_memory_free(gathered);
    return LS_OK;
}

TEST(gather_along_the_second_axis) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = gather_columns};
    run_workers_ok(&cluster);
}

/* No elements, and more rows of none than can be counted through. */
TEST(gather_of_no_elements) {
    ls_strategy *strategy = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    ls_shape many = LS_SHAPE(INT_MAX, INT_MAX, 0), shapes[2] = {many, many}, shape;
    const void *values[2] = {NULL, NULL};
    void *gathered = NULL;
    assert_ok(ls_gather(strategy, LS_FLOAT32, values, shapes, 2, &gathered, &shape));
    ck_assert_int_eq(shape.dims[1], INT_MAX);
    ck_assert_int_eq(shape.dims[2], 0);
    ls_memory_free(gathered);
    ls_strategy_free(strategy);
}

/* Each of the two replicas writes a variable of its own, or one of them reduces instead. */
struct apart {
    ls_variable *variables[2];
    bool reduce;
};

static ls_status write_apart(ls_replica *replica, void *context) {
    struct apart *apart = context;
    int id = ls_replica_id(replica);
    float one = 1;
    if (id && apart->reduce) return ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT32, &one, 0);
    return ls_variable_assign(apart->variables[id], replica, &one);
}

TEST(writes_to_different_variables_are_an_error) {
    struct apart apart = {.reduce = false};
    ls_strategy *strategy = NULL;
    float value = 7;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    for (int i = 0; i < 2; i++)
        assert_ok(ls_variable_new(strategy, i ? "b" : "a", LS_VARIABLE(.aggregation = LS_AGGREGATE_SUM),
                                  &apart.variables[i]));
    for (int round = 0; round < 2; round++, apart.reduce = true) {
        assert_fails(ls_strategy_run(strategy, write_apart, &apart), LS_FAILED_PRECONDITION,
                     "replicas 0 and 1 do different things");
    }
    assert_ok(ls_variable_read(apart.variables[0], &value));
    ck_assert_float_eq(value, 0);
    ls_strategy_free(strategy);
}

static ls_status gather_along_other_axes(struct worker *worker) {
    float value[4] = {0}, *gathered = NULL;
    const void *values[1] = {value};
    ls_shape own = LS_SHAPE(2, 2), shape;
    return ls_gather(worker->strategy, LS_FLOAT32, values, &own, worker->rank, (void **)&gathered, &shape);
}

TEST(axes_that_differ_are_named) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = gather_along_other_axes};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_ne(cluster.workers[i].status, LS_OK);
        ck_assert_msg(strstr(cluster.workers[i].error, "along axis 1"), "%s", cluster.workers[i].error);
    }
}

static ls_status gather_mismatch(struct worker *worker) {
    float value[6] = {0}, *gathered = NULL;
    const void *values[1] = {value};
    ls_shape own = worker->rank ? LS_SHAPE(2, 3) : LS_SHAPE(2, 2), shape;
    return ls_gather(worker->strategy, LS_FLOAT32, values, &own, 0, (void **)&gathered, &shape);
}

TEST(shapes_that_differ_are_named) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 1}, .fn = gather_mismatch};
    run_workers(&cluster);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cluster.workers[i].status, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(cluster.workers[i].error, "outside axis 0"), "%s", cluster.workers[i].error);
    }
}

TESTS("variable", .seconds = 120)
