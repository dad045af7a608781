/* By the processor's instruction where it has one, else by a table of sixteen. */
#include "base/record_frame.h"

#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

/* The contribution of four bits, for the reflected polynomial 0x82F63B78. */
static const uint32_t table[16] = {
    0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
};

static uint32_t by_table(uint32_t crc, const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *bytes, size_t size) {
    uint64_t state = crc, word;
    for (; size >= sizeof(word); bytes += sizeof(word), size -= sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        state = _mm_crc32_u64(state, word);
    }
    crc = (uint32_t)state;
    for (; size; bytes++, size--) crc = _mm_crc32_u8(crc, *bytes);
    return crc;
}
#endif

uint32_t ls_crc32c(const void *bytes, size_t size) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return ~by_instruction(~0U, bytes, size);
#endif
    return ~by_table(~0U, bytes, size);
}

uint32_t ls_crc32c_masked(const void *bytes, size_t size) {
    uint32_t crc = ls_crc32c(bytes, size);
    return (crc >> 15 | crc << 17) + 0xA282EAD8U;
}
