/* Numbers drawn from Philox4x32-10. */
#include "base/random.h"

#include <math.h>

double ls_random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t words[4];
    ls_philox_words(seed, stream, index, words);
    double u = ((double)words[0] + 0.5) * 0x1p-32, v = ((double)words[1] + 0.5) * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

uint64_t ls_random_stream(const char *name) {
    uint64_t hash = 0xCBF29CE484222325U;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001B3U;
    return hash;
}

/* A number below bound, without bias: draws again the few values that would fold unevenly. */
static uint64_t below(uint64_t seed, uint64_t stream, uint64_t bound, uint64_t *index) {
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    for (;;) {
        uint64_t bits = ls_random_bits(seed, stream, (*index)++);
        if (bits < limit) return bits % bound;
    }
}

void ls_random_permutation(uint64_t seed, uint64_t stream, int64_t count, int64_t *order) {
    uint64_t index = 0;
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)below(seed, stream, (uint64_t)i + 1, &index);
        int64_t held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
}
