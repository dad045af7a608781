/* A float32 as the 32 bits that it is stored in, and back; a double as its 64. */
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
static inline uint64_t ls_float_bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}
static inline double ls_float_bits_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
