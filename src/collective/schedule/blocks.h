/* Divides count elements over n ranks: contiguous blocks in rank order, the first count mod n one longer. */
#pragma once
#include <stddef.h>

/* The first element of block index; index n gives count. */
static inline size_t ls_block_start(size_t count, int n, int index) {
    size_t parts = (size_t)n, at = (size_t)index, longer = count % parts;
    return count / parts * at + (at < longer ? at : longer);
}
static inline size_t ls_block_count(size_t count, int n, int index) {
    return ls_block_start(count, n, index + 1) - ls_block_start(count, n, index);
}
