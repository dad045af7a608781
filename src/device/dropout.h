/* Which elements dropout keeps: a function of seed, layer, step, replica and element, the same on every device. */
#pragma once
#include "base/philox.h"
#include "device/op.h"

/* The seed of one run. */
static inline LS_HOST_DEVICE uint64_t ls_dropout_seed(const struct ls_randomness *random, int64_t iteration,
                                                      int64_t pass) {
    uint64_t step = ls_random_bits(random->seed, random->stream, (uint64_t)(iteration + (pass << 40)));
    return ls_random_bits(step, random->stream, (uint64_t)random->replica);
}

/* ls_philox_words(seed, stream of the layer, i / 4) gives the words of elements i to i + 3. An element is kept when its
 * word is not below the limit. */
static inline LS_HOST_DEVICE uint32_t ls_dropout_limit(float rate) {
    return (uint32_t)((double)rate * 4294967296.0);
}
