/* Philox4x32-10 (random.h), written so that it is compiled for the CPU and for GPUs alike. */
#pragma once
#include <stdint.h>

#ifdef __CUDACC__
#define LS_HOST_DEVICE __host__ __device__
#else
#define LS_HOST_DEVICE
#endif

static inline LS_HOST_DEVICE void ls_philox_round(uint32_t word[4], uint32_t key0, uint32_t key1) {
    uint64_t a = (uint64_t)word[0] * 0xD2511F53U, b = (uint64_t)word[2] * 0xCD9E8D57U;
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ word[1] ^ key0, (uint32_t)b, (uint32_t)(a >> 32) ^ word[3] ^ key1,
                        (uint32_t)a};
    for (int i = 0; i < 4; i++) word[i] = next[i];
}

/* Four 32-bit words, number index of the given stream. */
static inline LS_HOST_DEVICE void ls_philox_words(uint64_t seed, uint64_t stream, uint64_t index, uint32_t words[4]) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    words[0] = (uint32_t)index;
    words[1] = (uint32_t)(index >> 32);
    words[2] = (uint32_t)stream;
    words[3] = (uint32_t)(stream >> 32);
    for (int i = 0; i < 10; i++) {
        ls_philox_round(words, key0, key1);
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
}

/* The first two. */
static inline LS_HOST_DEVICE uint64_t ls_random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t words[4];
    ls_philox_words(seed, stream, index, words);
    return (uint64_t)words[0] << 32 | words[1];
}
