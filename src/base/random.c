/* Philox4x32-10 and what is drawn from it. */
#include "base/random.h"

#include <math.h>

static void philox_round(uint32_t word[4], uint32_t key0, uint32_t key1) {
    uint64_t a = (uint64_t)word[0] * 0xD2511F53U, b = (uint64_t)word[2] * 0xCD9E8D57U;
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ word[1] ^ key0, (uint32_t)b, (uint32_t)(a >> 32) ^ word[3] ^ key1,
                        (uint32_t)a};
    for (int i = 0; i < 4; i++) word[i] = next[i];
}

void ls_philox(uint64_t seed, uint64_t stream, uint64_t index, uint32_t words[4]) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    words[0] = (uint32_t)index;
    words[1] = (uint32_t)(index >> 32);
    words[2] = (uint32_t)stream;
    words[3] = (uint32_t)(stream >> 32);
    for (int i = 0; i < 10; i++) {
        philox_round(words, key0, key1);
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
}

uint64_t ls_random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t words[4];
    ls_philox(seed, stream, index, words);
    return (uint64_t)words[0] << 32 | words[1];
}

float ls_random_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    return (float)(ls_random_bits(seed, stream, index) >> 40) * 0x1p-24F;
}

double ls_random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t words[4];
    ls_philox(seed, stream, index, words);
    double u = ((double)words[0] + 0.5) * 0x1p-32, v = ((double)words[1] + 0.5) * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

uint64_t ls_stream_id(const char *name) {
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
