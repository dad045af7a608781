/* A float32 as the 32 bits that it is stored in, and back. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline uint32_t ls_float_bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}
static inline float ls_float_bits_value(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
