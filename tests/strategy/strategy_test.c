/* Strategies by themselves: options, replica ids, runs and meetings that go wrong, cross-device ops. */
#include "strategy/strategy.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "harness.h"
#include "ports.h"

static ls_strategy *mirrored_on(const char *devices) {
    ls_strategy *strategy = NULL;
    ls_status status = ls_mirrored_strategy_new(LS_STRATEGY(.devices = devices), &strategy);
    assert_ok(status);
    return strategy;
}

TEST(options_are_checked) {
    ls_strategy *strategy = NULL;
    const struct {
        ls_strategy_options options;
        ls_status status;
        const char *words;
    } table[] = {
        {{.size = 0}, LS_INVALID_ARGUMENT, "size"},
        {{.size = 4096}, LS_INVALID_ARGUMENT, "size"},
        {*LS_STRATEGY(.devices = "cpu:0", .communication = LS_NCCL), LS_INVALID_ARGUMENT,
         "device 0 of rank 0 is no GPU"},
        {*LS_STRATEGY(.communication = (ls_communication)9), LS_INVALID_ARGUMENT, "communication 9"},
        {*LS_STRATEGY(.compression = (ls_compression)9), LS_INVALID_ARGUMENT, "compression 9"},
        {*LS_STRATEGY(.cross_device_ops = (ls_cross_device_ops)9), LS_INVALID_ARGUMENT, "cross_device_ops 9"},
        {*LS_STRATEGY(.timeout_seconds = -1), LS_INVALID_ARGUMENT, "timeout_seconds -1"},
        {*LS_STRATEGY(.join_timeout_seconds = HUGE_VAL), LS_INVALID_ARGUMENT, "join_timeout_seconds inf"},
        {*LS_STRATEGY(.threads_per_replica = -1), LS_INVALID_ARGUMENT, "threads_per_replica -1"},
        {*LS_STRATEGY(.devices = "cpu:0,cpu:0"), LS_INVALID_ARGUMENT, "cpu:0"},
        {*LS_STRATEGY(.devices = "tpu:0"), LS_INVALID_ARGUMENT, "tpu:0"},
        {*LS_STRATEGY(.shard = (ls_sharding)9), LS_INVALID_ARGUMENT, "shard 9"},
        {*LS_STRATEGY(.shard_copies = 17), LS_INVALID_ARGUMENT, "shard_copies 17 is not in 1 .. 16"},
        {*LS_STRATEGY(.shard_copies = 2), LS_INVALID_ARGUMENT, "shard_copies 2 goes with shard"},
        {*LS_STRATEGY(.shard = LS_SHARDING_OPTIMIZER), LS_INVALID_ARGUMENT,
         "MirroredStrategy: shard optimizer divides"},
        {*LS_STRATEGY(.shard = LS_SHARDING_GRADIENTS), LS_INVALID_ARGUMENT,
         "MirroredStrategy: shard gradients divides"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        ck_assert_int_eq(ls_mirrored_strategy_new(&table[i].options, &strategy), table[i].status);
        ck_assert_msg(strstr(ls_error(), table[i].words), "row %zu: %s", i, ls_error());
        ck_assert_ptr_null(strategy);
    }
}

TEST(a_communicator_checks_its_options) {
    ls_communicator *communicator = NULL;
    assert_refused(ls_communicator_new(LS_STRATEGY(.communication = (ls_communication)9), &communicator),
                   "communication 9");
    assert_refused(ls_communicator_new(LS_STRATEGY(.timeout_seconds = -2), &communicator), "timeout_seconds -2");
    assert_refused(ls_communicator_new(LS_STRATEGY(.compression = LS_COMPRESS_BF16), &communicator),
                   "LS_ALL_REDUCE(.compression)");
    assert_refused(ls_communicator_new(LS_STRATEGY(.shard = LS_SHARDING_GRADIENTS), &communicator),
                   "a communicator has no moments");
    ck_assert_ptr_null(communicator);
}

TEST(bad_tf_config_is_named) {
    ls_strategy *strategy = NULL;
    const char *ps = "{\"cluster\":{\"worker\":[\"h:1\"],\"ps\":[\"p:1\"]},\"task\":{\"type\":\"ps\",\"index\":0}}";
    ls_communicator *communicator = NULL;
    assert_refused(ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.tf_config = "{"), &strategy), "TF_CONFIG");
    assert_refused(ls_communicator_new(LS_STRATEGY(.tf_config = ps), &communicator), "ps:0");
}

TEST(a_parameter_server_that_is_off_does_nothing) {
    const char *ps = "{\"cluster\":{\"worker\":[\"h:1\"],\"ps\":[\"p:1\"]},\"task\":{\"type\":\"ps\",\"index\":0}}";
    ls_strategy *strategy = NULL;
    ck_assert_int_eq(setenv("LOCKSTEP_PS", "off", 1), 0);
    assert_ok(ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.tf_config = ps), &strategy));
    ck_assert_int_eq(unsetenv("LOCKSTEP_PS"), 0);
    ck_assert(ls_is_parameter_server(strategy) && !ls_is_chief(strategy));
    assert_ok(ls_strategy_serve(strategy));
    ls_strategy_free(strategy);
    strategy = NULL;
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    ck_assert(!ls_is_parameter_server(strategy));
    ck_assert_int_eq(ls_strategy_serve(strategy), LS_FAILED_PRECONDITION);
    ls_strategy_free(strategy);
}

static ls_cluster_spec *spec_of(const char *cluster) {
    ls_cluster_spec *spec = NULL;
    assert_ok(ls_cluster_spec_new(cluster, &spec));
    return spec;
}

TEST(a_server_is_a_ps_task) {
    static const struct {
        const char *cluster, *job;
        int index;
        ls_status status;
        const char *says;
    } wrong[] = {
        {"{\"worker\":[\"h:1\"],\"ps\":[\"p:1\"]}", "worker", 0, LS_INVALID_ARGUMENT, "worker:0"},
        {"{\"worker\":[\"h:1\"],\"ps\":[\"p:1\"]}", "pss", 0, LS_NOT_FOUND,
         "no job 'pss'; its jobs are 'ps', 'worker'"},
        {"{\"worker\":[\"h:1\"],\"ps\":[\"p:1\"]}", "ps", 1, LS_NOT_FOUND, "index 1"},
        {"{\"worker\":[\"h:1\"],\"ps\":[\"p:1\"]}", NULL, 0, LS_INVALID_ARGUMENT, "2 jobs; name one"},
        {"{\"worker\":[\"h:1\"],\"ps\":[\"p:1\",\"q:1\"]}", "ps", -1, LS_INVALID_ARGUMENT, "2 tasks"},
        {"{\"gateway\":[\"h:1\"],\"ps\":[\"p:1\"]}", "ps", 0, LS_INVALID_ARGUMENT, "gateway"},
        {NULL, "ps", 0, LS_INVALID_ARGUMENT, "needs a spec"},
        {NULL, NULL, -1, LS_INVALID_ARGUMENT, "ps task"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ls_server *server = NULL;
        ls_cluster_spec *spec = wrong[i].cluster ? spec_of(wrong[i].cluster) : NULL;
        ck_assert_int_eq(ls_server_new(spec, wrong[i].job, wrong[i].index, NULL, &server), wrong[i].status);
        ck_assert_msg(strstr(ls_error(), wrong[i].says) && !server, "%zu: %s", i, ls_error());
        ls_cluster_spec_free(spec);
    }
}

/* A worker and a server of free ports. */
static void draw_cluster(char *cluster, size_t size) {
    int ports[2];
    take_ports(ports, 2);
    (void)snprintf(cluster, size, "{\"worker\": [\"127.0.0.1:%d\"], \"ps\": {\"0\": \"127.0.0.1:%d\"}}", ports[0],
                   ports[1]);
}

TEST(a_server_ends_with_the_workers) {
    char cluster[128], config[256], target[64];
    const char *address = NULL;
    ls_server *server = NULL;
    ls_strategy *strategy = NULL;
    draw_cluster(cluster, sizeof(cluster));
    ls_cluster_spec *spec = spec_of(cluster);
    assert_ok(ls_server_new(spec, "ps", -1, NULL, &server));
    assert_ok(ls_cluster_spec_task_address(spec, "ps", 0, &address));
    (void)snprintf(target, sizeof(target), "grpc://%s", address);
    ck_assert_str_eq(ls_server_target(server), target);
    (void)snprintf(config, sizeof(config), "{\"cluster\": %s, \"task\": {\"type\": \"worker\", \"index\": 0}}",
                   cluster);
    ck_assert_int_eq(setenv("LOCKSTEP_PS", "required", 1), 0);
    assert_ok(ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.tf_config = config), &strategy));
    ck_assert_int_eq(unsetenv("LOCKSTEP_PS"), 0);
    assert_ok(ls_strategy_close(strategy, LS_OK));
    assert_ok(ls_server_join(server));
    assert_ok(ls_server_join(server));
    ls_server_free(server);
    ls_cluster_spec_free(spec);
}

static void *stop_server(void *server) {
    (void)poll(NULL, 0, 50);
    (void)ls_server_stop(server);
    return NULL;
}

/* NULL: not as it should. */
static void *join_server(void *server) {
    return ls_server_join(server) == LS_CANCELLED ? server : NULL;
}

TEST(a_server_that_nobody_comes_to_is_stopped) {
    char cluster[128];
    pthread_t stopping, joining;
    void *joined = NULL;
    ls_server *server = NULL;
    draw_cluster(cluster, sizeof(cluster));
    ls_cluster_spec *spec = spec_of(cluster);
    assert_ok(ls_server_new(spec, "ps", 0, NULL, &server));
    ck_assert_int_eq(pthread_create(&joining, NULL, join_server, server), 0);
    ck_assert_int_eq(pthread_create(&stopping, NULL, stop_server, server), 0);
    ck_assert_int_eq(ls_server_join(server), LS_CANCELLED);
    ck_assert_int_eq(pthread_join(joining, &joined), 0);
    ck_assert_ptr_eq(joined, server);
    ck_assert_int_eq(pthread_join(stopping, NULL), 0);
    ls_server_free(server);
    server = NULL;
    assert_ok(ls_server_new(spec, "ps", 0, NULL, &server));
    ls_server_free(server);
    ls_cluster_spec_free(spec);
}

static ls_request ask_to_stop(void *context) {
    (void)context;
    return LS_STOP;
}

TEST(a_server_stops_as_its_program_asks) {
    char cluster[128];
    ls_server *server = NULL;
    draw_cluster(cluster, sizeof(cluster));
    ls_cluster_spec *spec = spec_of(cluster);
    assert_ok(ls_server_new(spec, "ps", 0, LS_STRATEGY(.request = ask_to_stop), &server));
    ck_assert_int_eq(ls_server_join(server), LS_CANCELLED);
    ck_assert_str_eq(ls_error(), "ps:0 was asked to stop");
    ls_server_free(server);
    ls_cluster_spec_free(spec);
}

TEST(an_evaluator_is_alone) {
    ls_strategy *strategy = NULL;
    const char *config =
        "{\"cluster\":{\"chief\":[\"c:1\"],\"worker\":[\"h:1\"]},\"task\":{\"type\":\"evaluator\",\"index\":0}}";
    ls_status status = ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.tf_config = config), &strategy);
    assert_ok(status);
    ck_assert_int_eq(ls_num_workers(strategy), 1);
    ck_assert(ls_is_chief(strategy));
    ls_strategy_free(strategy);
}

static ls_status note_id(ls_replica *replica, void *context) {
    ((int *)context)[ls_replica_local_id(replica)] = ls_replica_id(replica) + 100;
    return LS_OK;
}

TEST(every_replica_runs_once) {
    ls_strategy *strategy = mirrored_on("5");
    ck_assert_int_eq(ls_num_replicas_in_sync(strategy), 5);
    ck_assert_int_eq(ls_num_local_replicas(strategy), 5);
    for (int round = 0; round < 100; round++) {
        int ids[5] = {0};
        assert_ok(ls_strategy_run(strategy, note_id, ids));
        for (int i = 0; i < 5; i++) ck_assert_int_eq(ids[i], 100 + i);
    }
    ls_strategy_free(strategy);
}

static ls_status fail_on_two(ls_replica *replica, void *context) {
    (void)context;
    return ls_replica_id(replica) == 2 ? ls_fail(LS_OUT_OF_RANGE, "the cheese is off") : LS_OK;
}

TEST(a_failing_replica_is_named) {
    ls_strategy *strategy = mirrored_on("4");
    ck_assert_int_eq(ls_strategy_run(strategy, fail_on_two, NULL), LS_OUT_OF_RANGE);
    ck_assert_str_eq(ls_error(), "replica 2: the cheese is off");
    assert_ok(ls_strategy_run(strategy, note_id, (int[4]){0})); /* and the strategy goes on */
    ls_strategy_free(strategy);
}

static ls_status run_inside(ls_replica *replica, void *context) {
    (void)replica;
    return ls_strategy_run(context, note_id, NULL);
}

TEST(nested_run_is_refused) {
    ls_strategy *strategy = mirrored_on("1");
    ck_assert_int_eq(ls_strategy_run(strategy, run_inside, strategy), LS_FAILED_PRECONDITION);
    ls_strategy_free(strategy);
}

static ls_status reduce_unless_one(ls_replica *replica, void *context) {
    float value = 1;
    (void)context;
    if (ls_replica_id(replica) == 1) return LS_OK;
    return ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT32, &value, 1);
}

static ls_status reduce_other_counts(ls_replica *replica, void *context) {
    float values[3] = {1, 1, 1};
    (void)context;
    return ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT32, values, ls_replica_id(replica) == 2 ? 3 : 2);
}

TEST(different_calls_are_an_error) {
    ls_strategy *strategy = mirrored_on("3");
    assert_fails(ls_strategy_run(strategy, reduce_unless_one, NULL), LS_FAILED_PRECONDITION,
                 "replica 1 ended its function");
    assert_refused(ls_strategy_run(strategy, reduce_other_counts, NULL), "replica 2 reduces 3");
    assert_ok(ls_strategy_run(strategy, note_id, (int[3]){0}));
    ls_strategy_free(strategy);
}

static ls_status reduce_sum(ls_replica *replica, void *context) {
    double *out = context, values[2] = {ls_replica_id(replica) + 1.0, -2.0};
    ls_status status = ls_replica_all_reduce(replica, LS_SUM, LS_FLOAT64, values, 2);
    if (ls_replica_id(replica) == 2) memcpy(out, values, sizeof(values));
    return status;
}

TEST(replicas_reduce) {
    ls_strategy *strategy = mirrored_on("3");
    double out[2];
    assert_ok(ls_strategy_run(strategy, reduce_sum, out));
    ck_assert_double_eq(out[0], 6);
    ck_assert_double_eq(out[1], -6);
    ls_strategy_free(strategy);
}

/* ---- cross-device ops against the tree, straightforwardly folded ---- */

static double leaf_value(int leaf, size_t i) {
    return (double)((leaf * 7 + (int)(i % 13)) % 11) - 4 + (double)(i % 3) * 0.37 * (leaf + 1);
}

static void put(ls_dtype dtype, void *data, size_t i, double value) {
    switch (dtype) {
    case LS_FLOAT32:
        ((float *)data)[i] = (float)value;
        break;
    case LS_FLOAT64:
        ((double *)data)[i] = value;
        break;
    case LS_FLOAT16:
        ((uint16_t *)data)[i] = ls_half_from_float((float)value);
        break;
    case LS_BFLOAT16:
        ((uint16_t *)data)[i] = ls_half_bfloat16_from_float((float)value);
        break;
    case LS_INT32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case LS_INT64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    default: /* the table has no other */
        break;
    }
}

/* One element of the tree over leaves [low, high), every node rounded to the type. */
union element {
    float f;
    double d;
    int64_t i;
};
static union element fold_leaf(ls_dtype dtype, const void *data, size_t i) {
    switch (dtype) {
    case LS_FLOAT32:
        return (union element){.f = ((const float *)data)[i]};
    case LS_FLOAT64:
        return (union element){.d = ((const double *)data)[i]};
    case LS_FLOAT16:
        return (union element){.f = ls_half_to_float(((const uint16_t *)data)[i])};
    case LS_BFLOAT16:
        return (union element){.f = ls_half_bfloat16_to_float(((const uint16_t *)data)[i])};
    case LS_INT32:
        return (union element){.i = ((const int32_t *)data)[i]};
    default:
        return (union element){.i = ((const int64_t *)data)[i]};
    }
}
static float round_to(ls_dtype dtype, float value) {
    if (dtype == LS_FLOAT16) return ls_half_to_float(ls_half_from_float(value));
    if (dtype == LS_BFLOAT16) return ls_half_bfloat16_to_float(ls_half_bfloat16_from_float(value));
    return value;
}
static union element oracle(ls_dtype dtype, char *const *leaves, int low, int high, size_t i) {
    if (high - low == 1) return fold_leaf(dtype, leaves[low], i);
    int split = 1;
    while (split * 2 < high - low) split *= 2;
    union element a = oracle(dtype, leaves, low, low + split, i), b = oracle(dtype, leaves, low + split, high, i);
    if (dtype == LS_FLOAT64) return (union element){.d = a.d + b.d};
    if (dtype == LS_INT32 || dtype == LS_INT64) return (union element){.i = a.i + b.i};
    return (union element){.f = round_to(dtype, a.f + b.f)};
}

static ls_status cross_device(ls_replica *replica, void *context) {
    return ls_cross_device_all_reduce(replica, context);
}

static void check_cross_device(ls_strategy *strategy, ls_dtype dtype, size_t count) {
    int n = strategy->local_count;
    size_t bytes = count * ls_dtype_size(dtype);
    char *leaves[8], *arrays[8];
    for (int leaf = 0; leaf < n; leaf++) {
        leaves[leaf] = ls_alloc_aligned(bytes);
        arrays[leaf] = ls_alloc_aligned(bytes);
        for (size_t i = 0; i < count; i++) put(dtype, leaves[leaf], i, leaf_value(leaf, i));
        memcpy(arrays[leaf], leaves[leaf], bytes);
    }
    struct ls_cross_device_call call = {LS_SUM, dtype, count, (void *const *)arrays, n};
    assert_ok(ls_strategy_run(strategy, cross_device, &call));
    for (size_t i = 0; i < count; i++) {
        union element want = oracle(dtype, leaves, 0, n, i);
        for (int leaf = 0; leaf < n; leaf++) {
            union element have = fold_leaf(dtype, arrays[leaf], i);
            bool equal = dtype == LS_FLOAT64                      ? have.d == want.d
                         : dtype == LS_INT32 || dtype == LS_INT64 ? have.i == want.i
                                                                  : have.f == want.f;
            if (!equal)
                ck_abort_msg("%d devices, %s, count %zu: device %d element %zu", n, ls_dtype_name(dtype), count, leaf,
                             i);
        }
    }
    for (int leaf = 0; leaf < n; leaf++) {
        ls_free(leaves[leaf]);
        ls_free(arrays[leaf]);
    }
}

TEST(cross_device_table) {
    static const ls_cross_device_ops ops[] = {LS_REDUCTION_TO_ONE_DEVICE, LS_HIERARCHICAL_COPY};
    static const size_t counts[] = {0, 1, 2, 7, 8, 15, 16, 17, 1000, 4099};
    for (size_t o = 0; o < 2; o++)
        for (int devices = 1; devices <= 8; devices++) {
            char list[16];
            ls_strategy *strategy = NULL;
            (void)snprintf(list, sizeof(list), "%d", devices);
            assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = list, .cross_device_ops = ops[o]), &strategy));
            for (int dtype = LS_FLOAT32; dtype <= LS_INT64; dtype++)
                for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
                    check_cross_device(strategy, (ls_dtype)dtype, counts[c]);
            ls_strategy_free(strategy);
        }
}

TEST(one_device_is_one) {
    ls_strategy *strategy = NULL;
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    ck_assert_int_eq(ls_num_replicas_in_sync(strategy), 1);
    ls_strategy_free(strategy);
    strategy = NULL;
    assert_refused(ls_one_device_strategy_new("cpu:0,cpu:1", &strategy),
                   "OneDeviceStrategy takes one device, 'cpu:0,cpu:1' are 2");
}

TESTS("strategy", .seconds = 120)
