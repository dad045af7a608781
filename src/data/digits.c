/* The built-in dataset: digits drawn from strokes, example i being a pure function of (seed, split, i). Examples are
 * drawn when first read and kept as bytes. Any number of threads may read: whoever comes first to an example keeps it,
 * and who comes while it is being kept draws the same bits for itself, so that nobody waits. */
#include <stdatomic.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/random.h"
#include "data/image.h"
#include "data/pixels.h"
#include "data/sources.h"
#include "data/dataset.h"
#include "data/role.h"

#define TRAIN_COUNT 60000
#define TEST_COUNT  10000
#define MAX_COUNT   (INT64_C(1) << 26) /* 48 GiB of pixels */

enum state { EMPTY = 0, DRAWING, KEPT };

struct digits {
    struct ls_source source;
    uint64_t seed, stream;
    uint8_t *pixels;      /* owns: kept examples */
    atomic_uchar *states; /* owns: an enum state for each example */
};

/* Keeps the drawing if nobody else does. */
static void keep_digits(const struct digits *digits, int64_t index, const uint8_t *drawn) {
    unsigned char expected = EMPTY;
    if (!atomic_compare_exchange_strong(&digits->states[index], &expected, DRAWING)) return;
    memcpy(digits->pixels + (size_t)index * LS_DRAW_PIXELS, drawn, LS_DRAW_PIXELS);
    atomic_store_explicit(&digits->states[index], KEPT, memory_order_release);
}

static ls_status bytes_of_digits(const struct ls_source *source, int64_t index, uint8_t *features,
                                 const struct ls_targets *targets) {
    const struct digits *digits = (const struct digits *)source;
    *targets->labels = ls_draw_label(digits->seed, digits->stream, index);
    if (atomic_load_explicit(&digits->states[index], memory_order_acquire) == KEPT) {
        memcpy(features, digits->pixels + (size_t)index * LS_DRAW_PIXELS, LS_DRAW_PIXELS);
        return LS_OK;
    }
    ls_draw_digit(digits->seed, digits->stream, index, *targets->labels, features);
    keep_digits(digits, index, features);
    return LS_OK;
}

static ls_status read_digits_example(const struct ls_source *source, int64_t index, float *features,
                                     const struct ls_targets *targets) {
    uint8_t pixels[LS_DRAW_PIXELS];
    ls_status status = bytes_of_digits(source, index, pixels, targets);
    ls_pixels_to_unit(pixels, LS_DRAW_PIXELS, features);
    return status;
}

static void free_digits(struct ls_source *source) {
    struct digits *digits = (struct digits *)source;
    ls_free(digits->pixels);
    ls_free((void *)digits->states);
    ls_free(digits);
}

static const struct ls_source_ops digits_ops = {
    .read = read_digits_example, .free = free_digits, .bytes = bytes_of_digits};

/* Untouched pages of the cache cost nothing. */
static ls_status allocate_digits(struct digits *digits) {
    size_t count = (size_t)digits->source.count;
    digits->pixels = ls_alloc_array(count, LS_DRAW_PIXELS);
    digits->states = ls_alloc_array(count, sizeof(*digits->states));
    return digits->pixels && digits->states ? LS_OK : ls_fail_memory("the digits", count * (LS_DRAW_PIXELS + 1));
}

ls_status ls_dataset_digits(const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (status) return status;
    if (filled.limit > MAX_COUNT)
        return ls_fail(LS_INVALID_ARGUMENT, "limit is %lld: up to %lld digits are drawn", (long long)filled.limit,
                       (long long)MAX_COUNT);
    LS_NEW(struct digits, digits, "a dataset");
    int64_t count = filled.limit ? filled.limit : filled.split != LS_TRAIN ? TEST_COUNT : TRAIN_COUNT;
    digits->source = (struct ls_source){.ops = &digits_ops,
                                        .kind = "digits",
                                        .split = ls_role_of_two(filled.split),
                                        .shape = LS_SHAPE(LS_DRAW_SIDE, LS_DRAW_SIDE, 1),
                                        .classes = 10,
                                        .count = count,
                                        .bytes = true};
    digits->seed = filled.seed;
    digits->stream = ls_random_stream(filled.split != LS_TRAIN ? "digits/test" : "digits/train");
    status = allocate_digits(digits);
    if (!status) return ls_dataset_from_source(&digits->source, &filled, dataset);
    free_digits(&digits->source);
    return status;
}
