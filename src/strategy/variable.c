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

static size_t padded(const ls_variable *variable) {
    return ls_state_transfer_round(variable->bytes);
}

/* "variable w=float32 (3, 2) on-write mean\n" for each pending variable: all workers must have made the same. */
static ls_status describe_variables(const ls_strategy *strategy, bool pending, char **description) {
    size_t size = 1, used = 0;
    for (const ls_variable *v = strategy->variables; v; v = v->next) size += strlen(v->name) + 320;
    char *lines = ls_alloc(size);
    static const char *const synchronizations[] = {[LS_ON_WRITE] = "on-write", [LS_ON_READ] = "on-read"};
    static const char *const aggregations[] = {[LS_AGGREGATE_NONE] = "none",
                                               [LS_AGGREGATE_SUM] = "sum",
                                               [LS_AGGREGATE_MEAN] = "mean",
                                               [LS_AGGREGATE_ONLY_FIRST_REPLICA] = "only-first-replica"};
    if (!lines) return ls_fail_memory("the variables' description", size);
    for (const ls_variable *v = strategy->variables; v; v = v->next) {
        char shape[200];
        if (pending && !v->pending) continue;
        ls_shape_text(&v->options.shape, shape, sizeof(shape));
        used += (size_t)snprintf(lines + used, size - used, "variable %s=%s %s %s %s\n", v->name,
                                 ls_dtype_name(v->options.dtype), shape, synchronizations[v->options.synchronization],
                                 aggregations[v->options.aggregation]);
    }
    *description = lines;
    return LS_OK;
}

ls_status ls_variables_describe(const ls_strategy *strategy, char **lines) {
    return describe_variables(strategy, false, lines);
}

static ls_status agree_on_pending(ls_strategy *strategy) {
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    ls_status status = describe_variables(strategy, true, &lines);
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

size_t ls_variables_size(const ls_strategy *strategy) {
    size_t bytes = 0;
    for (const ls_variable *v = strategy->variables; v; v = v->next) bytes += padded(v);
    return bytes;
}

void ls_variables_pack(const ls_strategy *strategy, char *place) {
    for (const ls_variable *v = strategy->variables; v; place += padded(v), v = v->next)
        memcpy(place, v->copies[0], v->bytes);
}

void ls_variables_unpack(ls_strategy *strategy, const char *place) {
    for (ls_variable *v = strategy->variables; v; place += padded(v), v = v->next) {
        for (int i = 0; i < strategy->local_count; i++) memcpy(v->copies[i], place, v->bytes);
        v->pending = false;
    }
    strategy->pending = false;
}

/* ---- the flat broadcast of the pending ones ---- */

/* Values stand side by side in the order of their names, each rounded up to words of 8 bytes: one message for all
 * types. */
static ls_status broadcast_pending(ls_strategy *strategy) {
    size_t bytes = 0;
    for (const ls_variable *v = strategy->variables; v; v = v->next) bytes += v->pending ? padded(v) : 0;
    LS_CLEANUP(ls_free_pointer) char *flat = ls_alloc_aligned(bytes);
    if (!flat) return ls_fail_memory("the variables' broadcast", bytes);
    char *place = flat;
    for (ls_variable *v = strategy->variables; v; place += v->pending ? padded(v) : 0, v = v->next)
        if (v->pending) memcpy(place, v->copies[0], v->bytes);
    ls_status status =
        ls_group_broadcast(strategy->runtime->group, LS_BROADCAST("variables", flat, bytes / 8, LS_INT64));
    if (status) return status;
    place = flat;
    for (ls_variable *v = strategy->variables; v; v = v->next) {
        if (!v->pending) continue;
        for (int i = 0; i < strategy->local_count; i++) memcpy(v->copies[i], place, v->bytes);
        place += padded(v);
        v->pending = false;
    }
    return LS_OK;
}

void ls_variables_begin_anew(ls_strategy *strategy) {
    for (ls_variable *v = strategy->variables; v; v = v->next)
        if (v->options.synchronization == LS_ON_WRITE) v->pending = strategy->pending = true;
}

ls_status ls_variables_flush(ls_strategy *strategy) {
    if (!strategy->pending) return LS_OK;
    ls_status status = agree_on_pending(strategy);
    if (!status) status = broadcast_pending(strategy);
    if (!status) strategy->pending = false;
    return status;
}

/* ---- inside run ---- */

enum write_kind { WRITE_ASSIGN, WRITE_ADD, WRITE_SUB };

/* Flips the sign bit of floats, two's complement of integers: x - v is x + -v in every type, bit for bit. */
static void negate(ls_dtype dtype, void *data, size_t count) {
    for (size_t i = 0; i < count; i++) switch (dtype) {
        case LS_FLOAT16:
        case LS_BFLOAT16:
            ((uint16_t *)data)[i] ^= 0x8000U;
            break;
        case LS_FLOAT32:
            ((uint32_t *)data)[i] ^= 0x80000000U;
            break;
        case LS_FLOAT64:
            ((uint64_t *)data)[i] ^= UINT64_C(1) << 63;
            break;
        case LS_INT32:
            ((uint32_t *)data)[i] = 0U - ((uint32_t *)data)[i];
            break;
        case LS_INT64:
            ((uint64_t *)data)[i] = 0U - ((uint64_t *)data)[i];
            break;
        case LS_UINT8:
        case LS_INT8:
            ((uint8_t *)data)[i] = (uint8_t)(0U - ((uint8_t *)data)[i]);
            break;
        case LS_BOOL: /* no variable has it */
            break;
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
