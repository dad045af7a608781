/* Random calls on random clusters of workers that are threads, each with its devices, over every transport: ls_reduce,
 * ls_replica_all_reduce, and writes to mirrored and per-replica variables, against the oracle in bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/denormal.h"
#include "bench/oracle.h"
#include "property/draw.h"
#include "strategy/workers.h"

enum { MOST_CALLS = 30, MOST = 4, MOST_DEVICES = 3, MOST_REPLICAS = MOST * MOST_DEVICES, MOST_WRITES = 4 };

struct setting {
    uint64_t seed;
    int workers, first[MOST + 1]; /* replicas */
    const char *transport, *algorithm;
    ls_communication communication;
    uint64_t calls;
};

enum kind { REDUCE, REPLICA_ALL_REDUCE, VARIABLE, KINDS };
enum write_kind { ASSIGN, ADD, SUB };
struct write {
    enum write_kind kind;
    bool alone; /* in a run of its own; else in the same one as the write before */
};
struct call {
    uint64_t number;
    enum kind kind;
    ls_reduce_op op;
    ls_dtype dtype;
    size_t count, bytes;
    ls_synchronization synchronization;
    ls_aggregation aggregation;
    struct write writes[MOST_WRITES];
    int write_count;
};

/* ---- what is tried ---- */

static struct setting draw_setting(uint64_t seed) {
    static const char *const transports[] = {"auto", "shm", "tcp"};
    static const char *const algorithms[] = {"auto", "auto", "exchange", "direct"};
    struct draw draw = draw_from(seed, 1);
    struct setting setting = {.seed = seed, .workers = 1 + (int)draw_below(&draw, MOST)};
    for (int i = 0; i < setting.workers; i++)
        setting.first[i + 1] =
            setting.first[i] + 1 + (draw_once_in(&draw, 2) ? 0 : (int)draw_below(&draw, MOST_DEVICES));
    setting.transport = transports[draw_below(&draw, 3)];
    setting.algorithm = algorithms[draw_below(&draw, 4)];
    setting.communication = draw_once_in(&draw, 3) ? LS_RING : LS_AUTO;
    setting.calls = 1 + draw_below(&draw, MOST_CALLS);
    return setting;
}

static size_t draw_count(struct draw *draw, size_t element) {
    static const size_t units[] = {64, 1024, 16384, 65536, 131072};
    switch (draw_below(draw, 4)) {
    case 0:
        return draw_below(draw, 9);
    case 1:
        return draw_below(draw, 3000);
    default:
        return units[draw_below(draw, 5)] / element + draw_below(draw, 9);
    }
}

static struct call draw_call(const struct setting *setting, uint64_t number) {
    struct draw draw = draw_from(setting->seed, 100 + number);
    struct call call = {.number = number, .kind = (enum kind)draw_below(&draw, KINDS)};
    call.op = (ls_reduce_op)draw_below(&draw, LS_PRODUCT + 1);
    call.dtype = (ls_dtype)draw_below(&draw, call.kind == VARIABLE ? LS_BOOL : LS_BOOL + 1);
    if (call.dtype == LS_BOOL && call.op == LS_MEAN) call.op = LS_SUM;
    call.count = draw_count(&draw, ls_dtype_size(call.dtype));
    call.bytes = call.count * ls_dtype_size(call.dtype);
    call.synchronization = draw_once_in(&draw, 3) ? LS_ON_READ : LS_ON_WRITE;
    call.aggregation = (ls_aggregation)(LS_AGGREGATE_SUM + draw_below(&draw, 3));
    call.write_count = (int)draw_below(&draw, MOST_WRITES + 1);
    for (int i = 0; i < call.write_count; i++) {
        call.writes[i].kind = (enum write_kind)draw_below(&draw, 3);
        call.writes[i].alone = draw_once_in(&draw, 2);
    }
    return call;
}

static void say(const struct setting *setting) {
    char text[256];
    int used = snprintf(text, sizeof(text), "--seed %llu: transport %s, algorithm %s, %s, %llu calls, replicas",
                        (unsigned long long)setting->seed, setting->transport, setting->algorithm,
                        setting->communication ? "RING" : "AUTO", (unsigned long long)setting->calls);
    for (int i = 0; i < setting->workers; i++)
        used += snprintf(text + used, sizeof(text) - (size_t)used, " %d", setting->first[i + 1] - setting->first[i]);
    trial_note(text);
}

/* ---- what a worker has of it ---- */

/* Every replica's array, so that each worker knows what must come of them. */
struct making {
    struct worker *worker;
    const struct setting *setting;
    const struct call *call;
    ls_variable *variable;
    int begin, end; /* writes of one run */
    unsigned char *values[MOST_REPLICAS], *copies[MOST_REPLICAS], *got[MOST_REPLICAS], *expected;
};

static int replicas(const struct making *making) {
    return making->setting->first[making->setting->workers];
}

static unsigned char *new_array(const struct making *making) {
    unsigned char *array = malloc(making->call->bytes ? making->call->bytes : 1);
    if (!array) trial_fail("no memory");
    memset(array, 0xEE, making->call->bytes);
    return array;
}

static struct making new_making(struct worker *worker, const struct setting *setting, const struct call *call) {
    struct making making = {.worker = worker, .setting = setting, .call = call};
    making.expected = new_array(&making);
    for (int i = 0; i < replicas(&making); i++) {
        making.values[i] = new_array(&making);
        making.copies[i] = new_array(&making);
        making.got[i] = new_array(&making);
    }
    return making;
}

static void free_making(const struct making *making) {
    free(making->expected);
    for (int i = 0; i < replicas(making); i++) {
        free(making->values[i]);
        free(making->copies[i]);
        free(making->got[i]);
    }
}

/* The replica's array number of this call; a replica's own thread computes without denormals. */
static void fill(const struct making *making, int number, int replica, unsigned char *array) {
    uint64_t stream = ((making->setting->seed + making->call->number) * 8 + (uint64_t)number) * 32 + (uint64_t)replica;
    unsigned denormals = ls_denormals_keep();
    oracle_fill(making->call->dtype, array, making->call->count, stream);
    ls_denormals_restore(denormals);
}

static void fill_all(const struct making *making, int number, unsigned char *const *arrays) {
    for (int i = 0; i < replicas(making); i++) fill(making, number, i, arrays[i]);
}

static void combine(const struct making *making, ls_reduce_op op, unsigned char *const *leaves, void *result) {
    const struct oracle oracle = {.communication = making->setting->communication,
                                  .op = op,
                                  .dtype = making->call->dtype,
                                  .count = making->call->count,
                                  .size = making->setting->workers,
                                  .first = making->setting->first};
    oracle_all_reduce(&oracle, leaves, result);
}

/* The highest byte first. */
static void spell(const struct call *call, const unsigned char *element, char text[17]) {
    size_t size = ls_dtype_size(call->dtype);
    for (size_t i = 0; i < size; i++) (void)snprintf(text + 2 * i, 3, "%02x", element[size - 1 - i]);
}

static void expect(const struct making *making, const void *want, const void *got, const char *what, int replica) {
    const struct call *call = making->call;
    size_t at = oracle_compare(call->dtype, want, got, call->count), byte = at * ls_dtype_size(call->dtype);
    char bytes[2][17];
    if (at == call->count) return;
    spell(call, (const unsigned char *)want + byte, bytes[0]);
    spell(call, (const unsigned char *)got + byte, bytes[1]);
    trial_fail("call %llu, rank %d: %s of replica %d differs at %zu of %zu %s: want %s, got %s; op %d, aggregation %d, "
               "synchronization %d, writes %d",
               (unsigned long long)call->number, making->worker->rank, what, replica, at, call->count,
               ls_dtype_name(call->dtype), bytes[0], bytes[1], (int)call->op, (int)call->aggregation,
               (int)call->synchronization, call->write_count);
}

static void dawdle(const struct making *making, uint64_t who) {
    struct draw draw = draw_from(making->setting->seed ^ making->call->number << 40, 1000 + who);
    if (draw_once_in(&draw, 6)) (void)usleep((useconds_t)draw_below(&draw, 2000));
}

/* ---- the calls ---- */

static ls_status reduce(struct making *making) {
    const void *values[MOST_DEVICES] = {NULL};
    int low = making->setting->first[making->worker->rank], high = making->setting->first[making->worker->rank + 1];
    fill_all(making, 0, making->values);
    fill_all(making, 0, making->copies);
    for (int i = low; i < high; i++) values[i - low] = making->values[i];
    combine(making, making->call->op, making->values, making->expected);
    dawdle(making, (uint64_t)low);
    ls_status status = ls_reduce(making->worker->strategy, making->call->op, making->call->dtype, values,
                                 making->call->count, making->got[low]);
    if (!status) expect(making, making->expected, making->got[low], "the result", low);
    for (int i = low; i < high; i++) expect(making, making->copies[i], making->values[i], "the value, afterwards,", i);
    return status;
}

static ls_status reduce_own(ls_replica *replica, void *context) {
    const struct making *making = context;
    int id = ls_replica_id(replica);
    memcpy(making->got[id], making->values[id], making->call->bytes);
    dawdle(making, (uint64_t)id);
    ls_status status =
        ls_replica_all_reduce(replica, making->call->op, making->call->dtype, making->got[id], making->call->count);
    if (!status) expect(making, making->expected, making->got[id], "the result", id);
    return status;
}

static ls_status replica_all_reduce(struct making *making) {
    fill_all(making, 0, making->values);
    combine(making, making->call->op, making->values, making->expected);
    return ls_strategy_run(making->worker->strategy, reduce_own, making);
}

static ls_status write_own(ls_replica *replica, void *context) {
    static ls_status (*const writers[])(ls_variable *, ls_replica *, const void *) = {
        [ASSIGN] = ls_variable_assign, [ADD] = ls_variable_assign_add, [SUB] = ls_variable_assign_sub};
    const struct making *making = context;
    int id = ls_replica_id(replica);
    ls_status status = LS_OK;
    for (int i = making->begin; i < making->end && !status; i++) {
        fill(making, 1 + i, id, making->got[id]);
        dawdle(making, (uint64_t)(16 * i + id));
        status = writers[making->call->writes[i].kind](making->variable, replica, making->got[id]);
    }
    return status;
}

/* x - v is x + -v, bit for bit. */
static void negate(const struct call *call, unsigned char *data) {
    size_t element = ls_dtype_size(call->dtype);
    for (unsigned char *at = data; at < data + call->bytes; at += element) {
        uint64_t bits = 0;
        memcpy(&bits, at, element);
        bits = call->dtype >= LS_INT32 ? 0 - bits : bits ^ (uint64_t)1 << (8 * element - 1);
        memcpy(at, &bits, element);
    }
}

static void apply(const struct making *making, const struct write *write, unsigned char *value, unsigned char *copy) {
    unsigned char *both[] = {copy, value};
    const struct oracle oracle = {
        .dtype = making->call->dtype, .count = making->call->count, .size = 1, .first = (const int[]){0, 2}};
    if (write->kind == SUB) negate(making->call, value);
    if (write->kind == ASSIGN)
        memcpy(copy, value, making->call->bytes);
    else
        oracle_all_reduce(&oracle, both, copy);
}

static void aggregate(const struct making *making, unsigned char *const *values, unsigned char *result) {
    if (making->call->aggregation == LS_AGGREGATE_ONLY_FIRST_REPLICA)
        memcpy(result, values[0], making->call->bytes);
    else
        combine(making, making->call->aggregation == LS_AGGREGATE_SUM ? LS_SUM : LS_MEAN, values, result);
}

/* The effect of write number i on copies. */
static void expect_write(const struct making *making, int i) {
    fill_all(making, 1 + i, making->values);
    if (making->call->synchronization == LS_ON_WRITE) aggregate(making, making->values, making->expected);
    for (int id = 0; id < replicas(making); id++) {
        if (making->call->synchronization == LS_ON_WRITE)
            memcpy(making->values[id], making->expected, making->call->bytes);
        apply(making, &making->call->writes[i], making->values[id], making->copies[id]);
    }
}

static ls_status check_own(ls_replica *replica, void *context) {
    const struct making *making = context;
    int id = ls_replica_id(replica);
    expect(making, making->copies[id], ls_variable_data(making->variable, replica), "the copy", id);
    return LS_OK;
}

static ls_status write_all(struct making *making) {
    const struct call *call = making->call;
    ls_status status = LS_OK;
    for (making->begin = 0; making->begin < call->write_count && !status; making->begin = making->end) {
        making->end = making->begin + 1;
        while (making->end < call->write_count && !call->writes[making->end].alone) making->end++;
        status = ls_strategy_run(making->worker->strategy, write_own, making);
        for (int i = making->begin; i < making->end; i++) expect_write(making, i);
    }
    return status;
}

/* The chief's first value is all workers'. */
static ls_status make_variable(struct making *making) {
    char name[32];
    const struct call *call = making->call;
    int rank = making->worker->rank;
    (void)snprintf(name, sizeof(name), "v%llu", (unsigned long long)call->number);
    for (int i = 0; i < replicas(making); i++) fill(making, 0, 0, making->copies[i]);
    fill(making, 0, rank, making->expected);
    return ls_variable_new(making->worker->strategy, name,
                           LS_VARIABLE(.dtype = call->dtype, .shape = LS_SHAPE((int64_t)call->count),
                                       .initial = making->expected, .synchronization = call->synchronization,
                                       .aggregation = call->aggregation),
                           &making->variable);
}

static ls_status variable(struct making *making) {
    int low = making->setting->first[making->worker->rank];
    ls_status status = make_variable(making);
    if (!status) status = write_all(making);
    if (!status) status = ls_strategy_run(making->worker->strategy, check_own, making);
    if (!status) status = ls_variable_read(making->variable, making->got[low]);
    if (status) return status;
    if (making->call->synchronization == LS_ON_READ)
        aggregate(making, making->copies, making->expected);
    else
        memcpy(making->expected, making->copies[0], making->call->bytes);
    expect(making, making->expected, making->got[low], "what is read", low);
    return LS_OK;
}

/* ---- rounds ---- */

static ls_status make_calls(struct worker *worker) {
    static ls_status (*const makers[KINDS])(struct making *) = {
        [REDUCE] = reduce, [REPLICA_ALL_REDUCE] = replica_all_reduce, [VARIABLE] = variable};
    const struct setting *setting = worker->context;
    ls_status status = LS_OK;
    for (uint64_t number = 0; number < setting->calls && !status; number++) {
        struct call call = draw_call(setting, number);
        struct making making = new_making(worker, setting, &call);
        status = makers[call.kind](&making);
        if (status) trial_fail("call %llu, rank %d: %s", (unsigned long long)number, worker->rank, ls_error());
        free_making(&making);
    }
    return status;
}

static long one_cluster(uint64_t seed) {
    struct setting setting = draw_setting(seed);
    struct worker_cluster cluster = {.count = setting.workers,
                                     .options = {.communication = setting.communication, .timeout_seconds = 120},
                                     .fn = make_calls,
                                     .context = &setting};
    for (int i = 0; i < setting.workers; i++) cluster.devices[i] = setting.first[i + 1] - setting.first[i];
    say(&setting);
    (void)setenv("LOCKSTEP_TRANSPORT", setting.transport, 1);
    (void)setenv("LOCKSTEP_ALGORITHM", setting.algorithm, 1);
    run_workers(&cluster);
    for (int i = 0; i < setting.workers; i++)
        if (cluster.workers[i].status) trial_fail("rank %d: %s", i, cluster.workers[i].error);
    trial_note("between clusters");
    return (long)setting.calls;
}

int main(int argc, char **argv) {
    return trial_main(argc, argv, "property/strategy", one_cluster);
}
