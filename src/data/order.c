/* The order of an epoch is its passes over the examples, one after the other, each shuffled with a stream of its own.
 * Only the passes that a step touches are held in memory: rows within them are free, a new pass costs one shuffle.
 * Mirrors tf.data's shuffle and repeat. One thread. */
#include "data/order.h"

#include "base/new.h"
#include "base/random.h"

/* One pass in its shuffled order. */
struct pass {
    int64_t number; /* which one, counted over all epochs; -1: none yet */
    int64_t *order; /* owns */
};

struct ls_order {
    struct ls_order_config config;
    struct pass *passes; /* owns; pass n stands at n modulo num_passes; NULL when nothing is shuffled */
    int64_t num_passes;
};

/* The passes that one step can touch. longest rows in a row lie in at most (longest - 1) / length + 2 passes: they may
 * begin with the last row of one. Passes with consecutive numbers have different places modulo that count, so a step
 * never shuffles one pass twice. */
static ls_status make_passes(struct ls_order *order) {
    int64_t length = order->config.count, count = (order->config.longest - 1) / length + 2;
    if (order->config.options->shuffle == LS_SHUFFLE_NEVER) return LS_OK;
    if (count > order->config.options->repeat) count = order->config.options->repeat;
    order->passes = ls_alloc_array((size_t)count, sizeof(*order->passes));
    if (!order->passes) return ls_fail_memory("the order of the examples", (size_t)count * sizeof(struct pass));
    for (int64_t i = 0; i < count; i++) {
        struct pass *pass = &order->passes[order->num_passes++];
        pass->number = -1;
        pass->order = ls_alloc_array((size_t)length, sizeof(*pass->order));
        if (!pass->order) return ls_fail_memory("the order of the examples", (size_t)length * sizeof(int64_t));
    }
    return LS_OK;
}

ls_status ls_order_new(const struct ls_order_config *config, struct ls_order **order) {
    struct ls_order *made = ls_alloc(sizeof(*made));
    if (!made) {
        ls_free((void *)config->examples);
        return ls_fail_memory("the order of the examples", sizeof(*made));
    }
    made->config = *config;
    ls_status status = make_passes(made);
    return LS_HAND_OVER(status, order, made, ls_order_free(made));
}

void ls_order_free(struct ls_order *order) {
    if (!order) return;
    for (int64_t i = 0; i < order->num_passes; i++) ls_free(order->passes[i].order);
    ls_free(order->passes);
    ls_free((void *)order->config.examples);
    ls_free(order);
}

/* From 0 to below limit; a limit of examples is so far below 2^64 that no number is likelier to be noticed. The high
 * word of the product is the number scaled to the limit (Lemire 2019), without a division and without drawing again; so
 * one index is one number, and any draw can be repeated by itself. The bias is below limit / 2^64. */
static int64_t draw_below(uint64_t seed, uint64_t stream, int64_t index, int64_t limit) {
    return (int64_t)((unsigned __int128)ls_random_bits(seed, stream, (uint64_t)index) * (uint64_t)limit >> 64);
}

/* As tf.data's shuffle with a buffer smaller than the data: it is filled in order, and whichever of it is drawn makes
 * room for the next one. order serves as the buffer for what has not been drawn yet. It is Durstenfeld's form of the
 * Fisher-Yates shuffle in which a draw reaches held elements ahead and not all of them. An example can come at most
 * buffer - 1 places early, and any number of places late. */
static void shuffle_buffer(const struct ls_order_config *config, uint64_t stream, int64_t *order) {
    int64_t buffer = config->options->shuffle_buffer, count = config->count;
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = 0; i < count; i++) {
        int64_t held = count - i < buffer ? count - i : buffer;
        int64_t drawn = i + draw_below(config->options->seed, stream, i, held), number = order[drawn];
        order[drawn] = order[i];
        order[i] = number;
    }
}

static void shuffle(const struct ls_order *order, struct pass *pass, int64_t number) {
    const ls_dataset_options *options = order->config.options;
    uint64_t stream = order->config.stream + (uint64_t)number;
    pass->number = number;
    if (options->shuffle_buffer > 0 && options->shuffle_buffer < order->config.count)
        shuffle_buffer(&order->config, stream, pass->order);
    else
        ls_random_permutation(options->seed, stream, order->config.count, pass->order);
}

/* The place in a pass becomes an example's number. With SHUFFLE_ONCE all passes are in the order of the first one. The
 * permutation is a function of seed and pass number only. So a worker that joins at step t of epoch e finds the place
 * of every row without the steps before, and all workers agree without a message. */
static int64_t example_at(struct ls_order *order, int64_t epoch, int64_t row) {
    const ls_dataset_options *options = order->config.options;
    int64_t place = row % order->config.count;
    if (order->passes) {
        bool once = options->shuffle == LS_SHUFFLE_ONCE;
        int64_t number = once ? 0 : epoch * options->repeat + row / order->config.count;
        struct pass *pass = &order->passes[number % order->num_passes];
        if (pass->number != number) shuffle(order, pass, number);
        place = pass->order[place];
    }
    return order->config.examples ? order->config.examples[place] : place;
}

/* In the epoch, of this worker's row. */
static int64_t row_of(const struct ls_order_config *config, int64_t own) {
    if (!config->block) return own;
    return (own / config->block * config->num_workers + config->worker) * config->block + own % config->block;
}

void ls_order_rows(struct ls_order *order, int64_t epoch, int64_t first, int64_t count, struct ls_row *rows) {
    int64_t repeat = order->config.options->repeat;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = row_of(&order->config, first + i);
        rows[i] = (struct ls_row){example_at(order, epoch, row), epoch * repeat + row / order->config.count};
    }
}
