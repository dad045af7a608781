/* Arrays with guards, in memory of one's own or in a pool, and the calls on them. */
#include "property/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective/collectives.h"
#include "bench/oracle.h"

enum { GUARD = 64, MOST_POOL = 8 << 20 };

/* A rank's part in a call. */
struct making {
    struct ls_group *group;
    const struct setting *setting;
    const struct call *call;
    const struct answers *answers;
    struct pool *pools;
    struct draw draw; /* its own */
    int rank;
    size_t element;
};

/* ---- arrays ---- */

struct array {
    unsigned char *block; /* from malloc; NULL: in a pool */
    unsigned char *data;
    size_t bytes;
};

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
static void close_guards(const struct array *array) {
    ASAN_POISON_MEMORY_REGION(array->data - GUARD, GUARD);
    ASAN_POISON_MEMORY_REGION(array->data + array->bytes, GUARD);
}
static void open_guards(const struct array *array) {
    ASAN_UNPOISON_MEMORY_REGION(array->data - GUARD, GUARD);
    ASAN_UNPOISON_MEMORY_REGION(array->data + array->bytes, GUARD);
}
#else
static void close_guards(const struct array *array) {
    (void)array;
}
static void open_guards(const struct array *array) {
    (void)array;
}
#endif

/* So many bytes in front of the array, whose elements lie as their type wants it; what is only moved lies anywhere. */
static size_t draw_shift(struct making *making) {
    bool moved = making->call->kind == BROADCAST || making->call->kind == ALL_GATHER;
    size_t unit = moved ? 1 : making->element;
    return GUARD + (draw_once_in(&making->draw, 2) ? 0 : draw_below(&making->draw, 2 * GUARD / unit) * unit);
}

static unsigned char *from_pool(struct pool *pool, size_t bytes) {
    size_t whole = (bytes + 63) & ~(size_t)63;
    if (!pool->memory || pool->size - pool->used < whole) return NULL;
    pool->used += whole;
    return pool->memory + pool->used - whole;
}

/* Filled with what nobody may take for a result. */
static struct array new_array(struct making *making, size_t bytes) {
    const struct call *call = making->call;
    size_t shift = draw_shift(making), all = shift + bytes + GUARD;
    struct pool *pool = &making->pools[call->pooled ? call->number % POOLS : draw_below(&making->draw, POOLS)];
    bool pooled = call->pooled || draw_once_in(&making->draw, 4);
    unsigned char *memory = pooled ? from_pool(pool, all) : NULL, *block = NULL;
    if (!memory) memory = block = malloc(all);
    if (!memory) trial_fail("no memory");
    struct array array = {block, memory + shift, bytes};
    memset(array.data - GUARD, 0xA5, GUARD);
    memset(array.data, 0xEE, bytes);
    memset(array.data + bytes, 0x5A, GUARD);
    close_guards(&array);
    return array;
}

static void check_guards(const struct making *making, const struct array *array, const char *what) {
    open_guards(array);
    for (size_t i = 0; i < GUARD; i++) {
        if ((array->data - GUARD)[i] != 0xA5)
            trial_fail("rank %d: written %zu bytes before %s", making->rank, GUARD - i, what);
        if (array->data[array->bytes + i] != 0x5A)
            trial_fail("rank %d: written %zu bytes behind %s", making->rank, i, what);
    }
}

static void give_back(const struct making *making, const struct array *array, const char *what) {
    check_guards(making, array, what);
    free(array->block);
}

/* ---- comparing ---- */

static void expect(const struct making *making, const void *want, const void *got, size_t count, const char *what) {
    const struct call *call = making->call;
    size_t at = oracle_compare(call->dtype, want, got, count), element = making->element;
    if (at == count) return;
    char bytes[2][17] = {"", ""};
    for (size_t i = 0; i < element; i++)
        for (int side = 0; side < 2; side++)
            (void)snprintf(bytes[side] + 2 * i, 3, "%02x",
                           ((const unsigned char *)(side ? got : want))[at * element + element - 1 - i]);
    trial_fail("rank %d: %s differs at %zu of %zu: want %s, got %s", making->rank, what, at, count, bytes[0], bytes[1]);
}

static void expect_same(const struct making *making, const void *want, const void *got, size_t bytes,
                        const char *what) {
    if (bytes && memcmp(want, got, bytes) != 0) trial_fail("rank %d: %s is not what it should be", making->rank, what);
}

/* ---- the calls ---- */

static ls_status all_reduce(struct making *making) {
    const struct call *call = making->call;
    int low = call->first[making->rank], local = call->first[making->rank + 1] - low;
    size_t bytes = call->count * making->element;
    struct array inputs[MOST_LEAVES], outputs[MOST_LEAVES];
    const void *from[MOST_LEAVES];
    void *to[MOST_LEAVES];
    bool in_place = call->pooled || draw_once_in(&making->draw, 2);
    for (int i = 0; i < local; i++) {
        outputs[i] = new_array(making, bytes);
        inputs[i] = in_place ? outputs[i] : new_array(making, bytes);
        memcpy(inputs[i].data, making->answers->leaves[low + i], bytes);
        from[i] = inputs[i].data;
        to[i] = outputs[i].data;
    }
    const struct ls_all_reduce made = {.name = "all_reduce",
                                       .communication = call->communication,
                                       .op = call->op,
                                       .dtype = call->dtype,
                                       .count = call->count,
                                       .leaves = {call->first},
                                       .compression = call->compression,
                                       .inputs = from,
                                       .outputs = to};
    ls_status status = ls_group_all_reduce(making->group, &made);
    for (int i = 0; i < local; i++) {
        if (!status) expect(making, making->answers->expected, to[i], call->count, "an output");
        if (!in_place) expect_same(making, making->answers->leaves[low + i], from[i], bytes, "an input, afterwards,");
        if (!in_place) give_back(making, &inputs[i], "an input");
        give_back(making, &outputs[i], "an output");
    }
    return status;
}

static ls_status broadcast(struct making *making) {
    const struct call *call = making->call;
    size_t bytes = call->count * making->element;
    struct array data = new_array(making, bytes);
    if (making->rank == call->root) memcpy(data.data, making->answers->leaves[call->root], bytes);
    ls_status status =
        ls_group_broadcast(making->group, LS_BROADCAST("broadcast", data.data, call->count, call->dtype, call->root));
    if (!status) expect_same(making, making->answers->leaves[call->root], data.data, bytes, "the data");
    give_back(making, &data, "the data");
    return status;
}

static size_t part_start(const struct making *making, int rank) {
    size_t start = 0;
    for (int i = 0; i < rank; i++) start += making->call->counts[i] * making->element;
    return start;
}

static void expect_parts(const struct making *making, const unsigned char *got) {
    for (int i = 0; i < making->setting->size; i++)
        expect_same(making, making->answers->leaves[i], got + part_start(making, i),
                    making->call->counts[i] * making->element, "a part");
}

static ls_status all_gather(struct making *making) {
    const struct call *call = making->call;
    size_t own = call->counts[making->rank] * making->element;
    struct array output = new_array(making, call->count * making->element), input = new_array(making, own);
    unsigned char *from = input.data;
    if (draw_once_in(&making->draw, 2)) from = output.data + part_start(making, making->rank);
    memcpy(from, making->answers->leaves[making->rank], own);
    ls_status status =
        ls_group_all_gather(making->group, LS_ALL_GATHER("all_gather", from, output.data, call->counts, call->dtype));
    if (!status) expect_parts(making, output.data);
    if (!status) expect_same(making, making->answers->leaves[making->rank], from, own, "the input, afterwards,");
    give_back(making, &input, "the input");
    give_back(making, &output, "the output");
    return status;
}

static ls_status reduce_scatter(struct making *making) {
    const struct call *call = making->call;
    size_t bytes = call->count * making->element, own = call->counts[making->rank] * making->element;
    size_t start = part_start(making, making->rank);
    struct array input = new_array(making, bytes), output = new_array(making, own);
    const unsigned char *given = making->answers->leaves[making->rank];
    unsigned char *to = draw_once_in(&making->draw, 2) ? input.data + start : output.data;
    memcpy(input.data, given, bytes);
    const struct ls_reduce_scatter made = {.name = "reduce_scatter",
                                           .communication = call->communication,
                                           .op = call->op,
                                           .dtype = call->dtype,
                                           .counts = call->counts,
                                           .input = input.data,
                                           .output = to};
    ls_status status = ls_group_reduce_scatter(making->group, &made);
    if (!status) expect(making, making->answers->expected + start, to, call->counts[making->rank], "the own part");
    if (to != output.data) memcpy(to, given + start, own);
    expect_same(making, given, input.data, bytes, "the input, afterwards,");
    give_back(making, &output, "the output");
    give_back(making, &input, "the input");
    return status;
}

/* Another pool in the place of one of them, each rank its own size. */
static ls_status share(struct making *making) {
    struct pool *pool = &making->pools[making->call->number % POOLS];
    void *memory = NULL;
    size_t size = 1 + draw_below(&making->draw, draw_once_in(&making->draw, 4) ? MOST_POOL : 1 << 20);
    ls_group_unshare(making->group, pool->memory);
    *pool = (struct pool){0};
    ls_status status = ls_group_share(making->group, size, &memory);
    if (!status) *pool = (struct pool){memory, size, 0};
    for (size_t i = 0; i < pool->size; i++)
        if (pool->memory[i]) trial_fail("rank %d: shared memory is not zero", making->rank);
    return status;
}

static ls_status barrier(struct making *making) {
    return ls_group_barrier(making->group, "barrier");
}

/* ---- slips ---- */

/* A mistake that only this rank can see. It fails here, and the right call that follows takes its place. */
static ls_status make_slip(struct making *making) {
    const void *from[MOST_LEAVES] = {NULL};
    void *to[MOST_LEAVES] = {NULL};
    unsigned char data[8] = {0};
    size_t counts[MOST_RANKS] = {SIZE_MAX, SIZE_MAX};
    struct ls_group *group = making->group;
    struct ls_all_reduce reduce = {.name = "slip", .count = 1, .inputs = from, .outputs = to};
    struct ls_reduce_scatter scatter = {.name = "slip", .counts = counts, .op = LS_MAX, .input = data};
    int size = making->setting->size;
    switch (draw_below(&making->draw, 8)) {
    case 0:
        return ls_group_all_reduce(group, &reduce);
    case 1:
        reduce.dtype = (ls_dtype)-1;
        return ls_group_all_reduce(group, &reduce);
    case 2:
        reduce.count = SIZE_MAX;
        return ls_group_all_reduce(group, &reduce);
    case 3:
        return ls_group_broadcast(group,
                                  LS_BROADCAST("slip", data, 1, LS_INT32, draw_once_in(&making->draw, 2) ? -1 : size));
    case 4:
        return ls_group_all_gather(group, LS_ALL_GATHER("slip", data, data, NULL, LS_FLOAT64));
    case 5:
        return ls_group_all_gather(group, LS_ALL_GATHER("slip", data, data, counts, LS_FLOAT64));
    case 6:
        return ls_group_reduce_scatter(group, &scatter);
    default:
        return ls_group_barrier(group, NULL);
    }
}

ls_status call_make(struct ls_group *group, const struct setting *setting, const struct call *call,
                    const struct answers *answers, struct pool pools[POOLS]) {
    static ls_status (*const makers[KINDS])(struct making *) = {all_reduce,     broadcast, all_gather,
                                                                reduce_scatter, barrier,   share};
    int rank = ls_group_rank(group);
    struct making making = {.group = group,
                            .setting = setting,
                            .call = call,
                            .answers = answers,
                            .pools = pools,
                            .draw = draw_from(call->seed ^ call->number << 40, 1000 + (uint64_t)rank),
                            .rank = rank,
                            .element = ls_dtype_size(call->dtype)};
    for (int i = 0; i < POOLS; i++) pools[i].used = 0;
    if (draw_once_in(&making.draw, 6)) (void)usleep((useconds_t)draw_below(&making.draw, 2000));
    if (draw_once_in(&making.draw, 8) && make_slip(&making) != LS_INVALID_ARGUMENT)
        trial_fail("rank %d: a slip is not seen", rank);
    return makers[call->kind](&making);
}
