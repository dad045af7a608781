/* Gradients of a user's own loop: DDP's reducer and Horovod's DistributedOptimizer without an optimizer. Buckets are
 * cut from the last array to the first, the order in which backward makes them; a bucket is begun when its last array
 * is ready, and is added by the communicator's thread while backward goes on. */
#include <stdio.h>
#include <string.h>

#include "base/monitor.h"
#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "collective/bucket.h"
#include "collective/schedule/reduce.h"
#include "runtime/communicator.h"

enum { FIRST_PACK = 1024 * 1024, PACK = 25 * 1024 * 1024 };

/* Arrays of one type that are added together. */
struct pack {
    ls_dtype dtype;
    size_t count, bytes, missing; /* arrays; those that are not ready in this step */
    void **arrays;                /* [count] */
    size_t *counts;
    ls_pending *pending; /* NULL before it is begun */
};

struct ls_gradients {
    ls_communicator *communicator; /* borrowed */
    ls_gradients_options options;  /* its lists are the program's: gone once this is made */
    uint32_t number;               /* of those of the communicator */
    size_t count, pack_count;
    size_t *pack_of; /* [count] */
    bool *local;     /* [count] */
    struct pack *packs;
    struct ls_monitor monitor; /* guards what follows, and missing and pending of packs */
    int *passes;               /* [count] ready so often in this step */
};

/* ---- packs ---- */

/* Goes into the newest pack of its type unless that is full. Packs of other types stay open meanwhile. */
static struct pack *find_pack(struct ls_gradients *gradients, ls_dtype dtype) {
    size_t bytes = gradients->options.bytes_per_pack;
    const struct ls_bucket_rule rule = {.first_bytes = bytes ? bytes : FIRST_PACK, .bytes = bytes ? bytes : PACK};
    for (size_t i = gradients->pack_count; i-- > 0;) {
        struct pack *pack = &gradients->packs[i];
        if (pack->dtype == dtype) return ls_buckets_full(&rule, pack->bytes, !i) ? NULL : pack;
    }
    return NULL;
}

static ls_status add_to_pack(struct ls_gradients *gradients, size_t index) {
    const ls_gradients_options *options = &gradients->options;
    ls_dtype dtype = options->dtypes[index];
    size_t count = options->counts[index];
    struct pack *pack = find_pack(gradients, dtype);
    if (!pack) {
        pack = &gradients->packs[gradients->pack_count++];
        pack->dtype = dtype;
        pack->arrays = ls_alloc_array(gradients->count, sizeof(void *));
        pack->counts = ls_alloc_array(gradients->count, sizeof(size_t));
        if (!pack->arrays || !pack->counts) return ls_fail_memory("gradients", gradients->count * sizeof(void *));
    }
    pack->arrays[pack->count] = options->arrays[index];
    pack->counts[pack->count++] = count;
    pack->bytes += count * ls_dtype_size(dtype);
    pack->missing = pack->count;
    gradients->pack_of[index] = (size_t)(pack - gradients->packs);
    return LS_OK;
}

static ls_status begin_pack(struct ls_gradients *gradients, struct pack *pack) {
    char name[64];
    const ls_gradients_options *options = &gradients->options;
    double divide = ls_scale_factor(options->predivide);
    (void)snprintf(name, sizeof(name), "gradients %u, pack %zu", gradients->number, (size_t)(pack - gradients->packs));
    return ls_all_reduce_begin(
        gradients->communicator,
        LS_ALL_REDUCE(name, .dtype = pack->dtype, .op = options->sum ? LS_SUM : LS_MEAN,
                      .compression = pack->dtype == LS_FLOAT32 ? options->compression : LS_COMPRESS_NONE,
                      .prescale = 1 / divide, .postscale = divide, .inputs = (const void *const *)pack->arrays,
                      .outputs = pack->arrays, .counts = pack->counts, .array_count = pack->count),
        &pack->pending);
}

/* ---- checks ---- */

static ls_status check_options(const ls_communicator *communicator, const ls_gradients_options *options) {
    if (!communicator->async)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "gradients are added in the order in which they become ready: all ranks call "
                       "ls_communicator_negotiate first");
    if (options->passes < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "ls_gradients_options.passes is %d: backward passes a step are 1 or more",
                       options->passes);
    return LS_OK;
}

static ls_status check_array(const ls_gradients_options *options, size_t index) {
    ls_dtype dtype = options->dtypes[index];
    ls_status status = ls_reduce_check(options->sum ? LS_SUM : LS_MEAN, dtype);
    if (!status) status = ls_scale_check("predivide", options->predivide, dtype);
    if (!status && options->counts[index] && !options->arrays[index])
        status = ls_fail(LS_INVALID_ARGUMENT, "it is NULL");
    return status ? ls_fail_context(status, "gradient %zu", index) : LS_OK;
}

/* ---- the life ---- */

void ls_gradients_free(ls_gradients *gradients) {
    if (!gradients) return;
    for (size_t i = 0; gradients->packs && i < gradients->pack_count; i++) {
        ls_pending_free(gradients->packs[i].pending);
        ls_free(gradients->packs[i].arrays);
        ls_free(gradients->packs[i].counts);
    }
    ls_free(gradients->packs);
    ls_free(gradients->pack_of);
    ls_free(gradients->local);
    ls_free(gradients->passes);
    ls_monitor_destroy(&gradients->monitor);
    ls_free(gradients);
}

static ls_status fill_packs(struct ls_gradients *gradients) {
    size_t count = gradients->count;
    const bool *local = gradients->options.local;
    gradients->packs = ls_alloc_array(count + 1, sizeof(struct pack));
    gradients->pack_of = ls_alloc_array(count + 1, sizeof(size_t));
    gradients->local = ls_alloc(count + 1);
    gradients->passes = ls_alloc_array(count + 1, sizeof(int));
    if (!gradients->packs || !gradients->pack_of || !gradients->local || !gradients->passes)
        return ls_fail_memory("gradients", count * sizeof(struct pack));
    ls_status status = LS_OK;
    for (size_t i = count; i-- > 0 && !status;) {
        gradients->local[i] = local && local[i];
        status = check_array(&gradients->options, i);
        if (!status && !gradients->local[i]) status = add_to_pack(gradients, i);
    }
    return status;
}

ls_status ls_gradients_new(ls_communicator *communicator, const ls_gradients_options *options,
                           ls_gradients **gradients) {
    LS_NEED(communicator, options, gradients);
    ls_gradients_options copy;
    ls_status status = ls_options_copy("ls_gradients_options", &copy, sizeof(copy), options);
    if (!status && !ls_need(__func__, "arrays, counts, dtypes", (const bool[]){copy.arrays, copy.counts, copy.dtypes}))
        status = LS_INVALID_ARGUMENT;
    if (!status) status = check_options(communicator, &copy);
    if (status) return status;
    LS_NEW(ls_gradients, made, "gradients");
    made->communicator = communicator;
    made->options = copy;
    if (!made->options.passes) made->options.passes = 1;
    made->count = copy.array_count;
    status = fill_packs(made);
    if (!status) status = ls_monitor_init(&made->monitor);
    if (!status) made->number = communicator->gradients++;
    return LS_HAND_OVER(status, gradients, made, ls_gradients_free(made));
}

/* ---- a step ---- */

static ls_status note_ready(struct ls_gradients *gradients, size_t index) {
    if (gradients->passes[index] == gradients->options.passes)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "gradient %zu is ready more than %d times in a step (ls_gradients_options.passes): call "
                       "ls_gradients_wait between steps",
                       index, gradients->options.passes);
    if (++gradients->passes[index] < gradients->options.passes || gradients->local[index]) return LS_OK;
    struct pack *pack = &gradients->packs[gradients->pack_of[index]];
    if (--pack->missing) return LS_OK;
    return begin_pack(gradients, pack);
}

ls_status ls_gradients_ready(ls_gradients *gradients, size_t index) {
    LS_NEED(gradients);
    if (index >= gradients->count)
        return ls_fail(LS_INVALID_ARGUMENT, "gradient %zu is none of %zu", index, gradients->count);
    LS_HOLD(&gradients->monitor);
    return note_ready(gradients, index);
}

/* A pack that has not been begun, as not all of its arrays are ready, is begun as it is: the other ranks wait for it.
 */
static ls_status finish_pack(struct ls_gradients *gradients, struct pack *pack) {
    LS_HOLD(&gradients->monitor);
    return pack->pending ? LS_OK : begin_pack(gradients, pack);
}

ls_status ls_gradients_wait(ls_gradients *gradients) {
    LS_NEED(gradients);
    ls_status status = LS_OK;
    for (size_t i = 0; i < gradients->pack_count && !status; i++) status = finish_pack(gradients, &gradients->packs[i]);
    for (size_t i = 0; i < gradients->pack_count && !status; i++)
        status = ls_pending_wait(gradients->packs[i].pending, 0);
    LS_HOLD(&gradients->monitor);
    for (size_t i = 0; i < gradients->pack_count; i++) {
        if (gradients->packs[i].pending) ls_pending_free(ls_steal(gradients->packs[i].pending));
        gradients->packs[i].missing = gradients->packs[i].count;
    }
    memset(gradients->passes, 0, gradients->count * sizeof(int));
    return status;
}
