/* float32 to the 16 bits that cross a link and back: rounding to nearest even as in base/half.h, the same bits on
 * every processor and in every denormal mode. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_NARROW_ELEMENT sizeof(uint16_t) /* bytes */
/* Bytes of compressed elements, by those of float32. */
static inline size_t ls_narrow_size(size_t size) {
    return size / sizeof(float) * LS_NARROW_ELEMENT;
}

struct ls_conversion {
    void (*narrow)(void *to, const void *from, size_t count); /* not in place */
    void (*widen)(void *to, const void *from, size_t count);
};
/* NULL for LS_COMPRESS_NONE. */
const struct ls_conversion *ls_convert_find(ls_compression compression);
