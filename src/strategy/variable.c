/* Mirrored and per-replica variables (tf.distribute's DistributedVariable): broadcast at start, reduced on write,
 * reduced on read. Every variable has one copy on each local replica. */
#include "strategy/variable.h"

#include <stdio.h>
#include <string.h>

#include "base/denormal.h"
#include "base/shape.h"
#include "base/new.h"
#include "base/need.h"
#include "base/options.h"
#include "base/text.h"
#include "collective/collectives.h"
#include "collective/group.h"
#include "collective/schedule/reduce.h"
#include "runtime/state_transfer.h"
#include "strategy/strategy.h"

struct ls_variable {
    ls_variable *next; /* by name: alike on all workers, in whatever order each makes them */
    ls_strategy *strategy;
    char *name;
    ls_variable_options options;
    size_t count, bytes;
    bool pending;                        /* not yet broadcast */
    void *copies[LS_MAX_LOCAL_DEVICES];  /* host memory that the device reaches */
    void *scratch[LS_MAX_LOCAL_DEVICES]; /* for values on their way */
};

static void release_copies(ls_variable *variable, int from) {
    for (int i = from; i < variable->strategy->local_count; i++) {
        struct ls_device *device = variable->strategy->replicas[i].device;
        if (variable->copies[i]) ls_device_release_host(device, variable->copies[i]);
        if (variable->scratch[i]) ls_device_release_host(device, variable->scratch[i]);
        variable->copies[i] = variable->scratch[i] = NULL;
    }
}

static void variable_free(ls_variable *variable) {
    release_copies(variable, 0);
    ls_free(variable->name);
    ls_free(variable);
}

void ls_variables_free(ls_strategy *strategy) {
    while (strategy->variables) {
        ls_variable *variable = strategy->variables;
        strategy->variables = variable->next;
        variable_free(variable);
    }
}

static ls_status check_variable_options(const ls_strategy *strategy, const char *name,
                                        const ls_variable_options *options) {
    if (!name || !*name || strchr(name, '\n'))
        return ls_fail(LS_INVALID_ARGUMENT, "a variable needs a name, without line breaks");
    for (const ls_variable *other = strategy->variables; other; other = other->next)
        if (!strcmp(other->name, name))
            return ls_fail(LS_ALREADY_EXISTS, "there is a variable named '%s' already", name);
    ls_status status = ls_dtype_check(options->dtype);
    if (status) return ls_fail_context(status, "variable '%s'", name);
    if (options->dtype == LS_BOOL)
        return ls_fail(LS_INVALID_ARGUMENT, "variable '%s' of bool could not be added to: give it the type uint8",
                       name);
    if (ls_shape_count(&options->shape) < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "variable '%s' has a bad shape (rank %d)", name, options->shape.rank);
    if ((unsigned)options->synchronization > LS_ON_READ)
        return ls_fail(LS_INVALID_ARGUMENT, "variable '%s': synchronization %d is neither LS_ON_WRITE nor LS_ON_READ",
                       name, options->synchronization);
    if ((unsigned)options->aggregation > LS_AGGREGATE_ONLY_FIRST_REPLICA)
        return ls_fail(LS_INVALID_ARGUMENT, "variable '%s': aggregation %d is no ls_aggregation", name,
                       options->aggregation);
    return LS_OK;
}

static ls_status allocate_copies(ls_variable *variable, int from, const void *initial) {
    for (int i = from; i < variable->strategy->local_count; i++) {
        struct ls_device *device = variable->strategy->replicas[i].device;
        ls_status status = ls_device_allocate_host(device, variable->bytes, &variable->copies[i]);
        if (!status) status = ls_device_allocate_host(device, variable->bytes, &variable->scratch[i]);
        if (status) return ls_fail_context(status, "variable '%s'", variable->name);
        if (initial) memcpy(variable->copies[i], initial, variable->bytes);
    }
    return LS_OK;
}

ls_status ls_variables_add_replicas(void *context, int from) {
    const ls_strategy *strategy = context;
    ls_status status = LS_OK;
    for (ls_variable *v = strategy->variables; v && !status; v = v->next)
        status = allocate_copies(v, from, v->copies[0]);
    return status;
}

void ls_variables_drop_replicas(void *context, int from) {
    const ls_strategy *strategy = context;
    for (ls_variable *v = strategy->variables; v; v = v->next) release_copies(v, from);
}

/* Making a variable sends nothing; it is pending until the first use, where all pending ones go in one broadcast. A
 * loss of a worker at that time is then inside of a call that may recover. */
ls_status ls_variable_new(ls_strategy *strategy, const char *name, const ls_variable_options *options,
                          ls_variable **variable) {
    LS_NEED(strategy, variable);
    ls_variable_options copy;
    ls_status status = ls_options_copy("ls_variable_options", &copy, sizeof(copy), options);
    if (!status) status = check_variable_options(strategy, name, &copy);
    if (status) return status;
    LS_NEW(ls_variable, made, "a variable");
    made->strategy = strategy;
    made->options = copy;
    made->count = (size_t)ls_shape_count(&copy.shape);
    made->name = ls_strdup(name);
    status = __builtin_mul_overflow(made->count, ls_dtype_size(copy.dtype), &made->bytes) || !made->name
                 ? ls_fail_memory("a variable", made->count)
                 : allocate_copies(made, 0, copy.initial);
    if (status) {
        variable_free(made);
        return status;
    }
    made->options.initial = NULL;
    made->pending = strategy->pending = true;
    ls_variable **at = &strategy->variables;
    while (*at && strcmp((*at)->name, name) < 0) at = &(*at)->next;
    made->next = *at;
    *at = made;
    *variable = made;
    return LS_OK;
}

/* ---- what they are ---- */

static size_t padded(const ls_variable *variable, bool pending) {
    return pending && !variable->pending ? 0 : ls_state_transfer_round(variable->bytes);
}

void ls_variables_describe(const ls_strategy *strategy, bool pending, FILE *out) {
    static const char *const synchronizations[] = {[LS_ON_WRITE] = "on-write", [LS_ON_READ] = "on-read"};
    static const char *const aggregations[] = {[LS_AGGREGATE_NONE] = "none",
                                               [LS_AGGREGATE_SUM] = "sum",
                                               [LS_AGGREGATE_MEAN] = "mean",
                                               [LS_AGGREGATE_ONLY_FIRST_REPLICA] = "only-first-replica"};
    for (const ls_variable *v = strategy->variables; v; v = v->next) {
        char shape[200];
        if (pending && !v->pending) continue;
        ls_shape_text(&v->options.shape, shape, sizeof(shape));
        (void)fprintf(out, "variable %s=%s %s %s %s\n", v->name, ls_dtype_name(v->options.dtype), shape,
                      synchronizations[v->options.synchronization], aggregations[v->options.aggregation]);
    }
}

static ls_status agree_on_pending(ls_strategy *strategy) {
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    struct ls_text text;
    FILE *out = ls_text_open(&text, 1);
    if (out) ls_variables_describe(strategy, true, out);
    ls_status status = ls_text_close(&text, LS_OK, "the variables' description", &lines);
    return status ? status : ls_runtime_agree(strategy->runtime, "variables", lines);
}

/* ---- all of them side by side ---- */

ls_status ls_variables_check_mirrored(const ls_strategy *strategy) {
    for (const ls_variable *v = strategy->variables; v; v = v->next)
        if (v->options.synchronization == LS_ON_READ)
            return ls_fail(LS_FAILED_PRECONDITION,
                           "variable '%s' is ON_READ: each replica has a value of its own, which is lost with it; read "
                           "it into registered state before a commit, or make it ON_WRITE",
                           v->name);
    return LS_OK;
}

/* Values stand in the order of their names, each rounded up to words of 8 bytes: one message for all types. */
size_t ls_variables_size(const ls_strategy *strategy, bool pending) {
    size_t bytes = 0;
    for (const ls_variable *v = strategy->variables; v; v = v->next) bytes += padded(v, pending);
    return bytes;
}

void ls_variables_pack(const ls_strategy *strategy, bool pending, char *place) {
    for (const ls_variable *v = strategy->variables; v; place += padded(v, pending), v = v->next)
        if (padded(v, pending)) memcpy(place, v->copies[0], v->bytes);
}

void ls_variables_unpack(ls_strategy *strategy, bool pending, const char *place) {
    for (ls_variable *v = strategy->variables; v; v = v->next) {
        size_t size = padded(v, pending);
        for (int i = 0; size && i < strategy->local_count; i++) memcpy(v->copies[i], place, v->bytes);
        place += size;
        v->pending = false;
    }
    strategy->pending = false;
}

static ls_status broadcast_pending(ls_strategy *strategy) {
    size_t bytes = ls_variables_size(strategy, true);
    LS_CLEANUP(ls_free_pointer) char *flat = ls_alloc_aligned(bytes);
    if (!flat) return ls_fail_memory("the variables' broadcast", bytes);
    ls_variables_pack(strategy, true, flat);
    ls_status status =
        ls_group_broadcast(strategy->runtime->group, LS_BROADCAST("variables", flat, bytes / 8, LS_INT64));
    if (!status) ls_variables_unpack(strategy, true, flat);
    return status;
}

void ls_variables_begin_anew(ls_strategy *strategy) {
    for (ls_variable *v = strategy->variables; v; v = v->next)
        if (v->options.synchronization == LS_ON_WRITE) v->pending = strategy->pending = true;
}

ls_status ls_variables_flush(ls_strategy *strategy) {
    if (!strategy->pending) return LS_OK;
    ls_status status = agree_on_pending(strategy);
    return status ? status : broadcast_pending(strategy);
}

/* ---- inside run ---- */

enum write_kind { WRITE_ASSIGN, WRITE_ADD, WRITE_SUB };

/* Flips the sign bit of floats, two's complement of integers: x - v is x + -v in every type, bit for bit. */
static void negate(ls_dtype dtype, void *data, size_t count) {
    bool real = dtype <= LS_BFLOAT16;
    for (size_t i = 0; i < count; i++) switch (ls_dtype_size(dtype)) {
        case sizeof(uint8_t):
            ((uint8_t *)data)[i] = (uint8_t)(0U - ((uint8_t *)data)[i]);
            break;
        case sizeof(uint16_t): /* all are floats */
            ((uint16_t *)data)[i] ^= 0x8000U;
            break;
        case sizeof(uint32_t):
            ((uint32_t *)data)[i] = real ? ((uint32_t *)data)[i] ^ 0x80000000U : 0U - ((uint32_t *)data)[i];
            break;
        default:
            ((uint64_t *)data)[i] = real ? ((uint64_t *)data)[i] ^ UINT64_C(1) << 63 : 0U - ((uint64_t *)data)[i];
        }
}

/* Applies scratch[local] to this replica's copy. Denormals are kept, as between replicas. A replica on a CPU computes
 * without them and one on a GPU with them, and the copies have the same bits. */
static void apply(ls_variable *variable, int local, enum write_kind kind) {
    void *copy = variable->copies[local], *value = variable->scratch[local];
    ls_dtype dtype = variable->options.dtype;
    if (kind == WRITE_ASSIGN) {
        memcpy(copy, value, variable->bytes);
        return;
    }
    if (kind == WRITE_SUB) negate(dtype, value, variable->count);
    unsigned denormals = ls_denormals_keep();
    ls_reduce_combine(LS_SUM, dtype)(copy, copy, value, variable->count);
    ls_denormals_restore(denormals);
}

/* The last replica to arrive: scratch[] holds every local replica's value and receives the aggregate. */
static ls_status aggregate(ls_strategy *strategy, void *context) {
    ls_variable *variable = context;
    ls_dtype dtype = variable->options.dtype;
    if (variable->options.aggregation != LS_AGGREGATE_ONLY_FIRST_REPLICA)
        return ls_reduce_all_replicas(
            strategy, LS_ALL_REDUCE(variable->name, .count = variable->count, .dtype = dtype,
                                    .op = variable->options.aggregation == LS_AGGREGATE_SUM ? LS_SUM : LS_MEAN,
                                    .inputs = (const void *const *)variable->scratch, .outputs = variable->scratch));
    ls_status status = ls_group_broadcast(strategy->runtime->group,
                                          LS_BROADCAST(variable->name, variable->scratch[0], variable->count, dtype));
    for (int i = 1; !status && i < strategy->local_count; i++)
        memcpy(variable->scratch[i], variable->scratch[0], variable->bytes);
    return status;
}

/* The value goes to scratch and not to the copy, so that a meeting that fails leaves the variable as it was. Every
 * replica applies the same aggregate to the same bits, and the copies stay equal without another exchange. */
static ls_status write_value(ls_variable *variable, ls_replica *replica, const void *value, enum write_kind kind) {
    int local = replica->local_id;
    bool mirrored = variable->options.synchronization == LS_ON_WRITE;
    if (mirrored && variable->options.aggregation == LS_AGGREGATE_NONE)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "variable '%s' has aggregation NONE: a mirrored variable that is assigned in "
                       "a replica needs SUM, MEAN or ONLY_FIRST_REPLICA",
                       variable->name);
    memcpy(variable->scratch[local], value, variable->bytes);
    ls_status status = mirrored ? ls_replicas_meet(replica, aggregate, variable) : LS_OK;
    if (!status) apply(variable, local, kind);
    return status;
}

ls_status ls_variable_assign(ls_variable *variable, ls_replica *replica, const void *value) {
    LS_NEED(variable, replica, value);
    return write_value(variable, replica, value, WRITE_ASSIGN);
}

ls_status ls_variable_assign_add(ls_variable *variable, ls_replica *replica, const void *value) {
    LS_NEED(variable, replica, value);
    return write_value(variable, replica, value, WRITE_ADD);
}

ls_status ls_variable_assign_sub(ls_variable *variable, ls_replica *replica, const void *value) {
    LS_NEED(variable, replica, value);
    return write_value(variable, replica, value, WRITE_SUB);
}

void *ls_variable_data(ls_variable *variable, ls_replica *replica) {
    LS_NEED_OR(NULL, variable, replica);
    return variable->copies[replica->local_id];
}

/* ---- outside run ---- */

/* An ON_READ variable with SUM is read as the sum over replicas, so each copy gets its N-th part, as tf.distribute's
 * SyncOnReadVariable does. */
ls_status ls_variable_set(ls_variable *variable, const void *value) {
    LS_NEED(variable, value);
    ls_strategy *strategy = variable->strategy;
    const ls_variable_options *options = &variable->options;
    ls_status status = ls_variables_flush(strategy);
    if (status) return status;
    for (int i = 0; i < strategy->local_count; i++) {
        memcpy(variable->copies[i], value, variable->bytes);
        if (options->synchronization == LS_ON_READ && options->aggregation == LS_AGGREGATE_SUM)
            ls_reduce_divide(options->dtype, variable->copies[i], variable->count, strategy->total_count);
    }
    return LS_OK;
}

static ls_status read_combined(ls_variable *variable, void *output) {
    ls_strategy *strategy = variable->strategy;
    ls_aggregation aggregation = variable->options.aggregation;
    ls_dtype dtype = variable->options.dtype;
    if (aggregation == LS_AGGREGATE_NONE)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "variable '%s' is ON_READ with aggregation NONE: it has no value outside of a "
                       "replica; give it SUM, MEAN or ONLY_FIRST_REPLICA",
                       variable->name);
    if (aggregation != LS_AGGREGATE_ONLY_FIRST_REPLICA)
        return ls_reduce(strategy, aggregation == LS_AGGREGATE_SUM ? LS_SUM : LS_MEAN, dtype,
                         (const void *const *)variable->copies, variable->count, output);
    memcpy(output, variable->copies[0], variable->bytes);
    return ls_group_broadcast(strategy->runtime->group, LS_BROADCAST(variable->name, output, variable->count, dtype));
}

ls_status ls_variable_read(ls_variable *variable, void *output) {
    LS_NEED(variable, output);
    ls_status status = ls_variables_flush(variable->strategy);
    if (status) return status;
    if (variable->options.synchronization == LS_ON_READ) return read_combined(variable, output);
    memcpy(output, variable->copies[0], variable->bytes);
    return LS_OK;
}
