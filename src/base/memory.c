/* Allocation through the C library, so that a test can make the k-th call fail by wrapping calloc and aligned_alloc. */
#include "base/memory.h"

#include <lockstep/lockstep.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *ls_alloc(size_t size) {
    return calloc(1, size ? size : 1);
}

void *ls_alloc_array(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL; /* AddressSanitizer ends a calloc of so many */
    return ls_alloc(bytes);
}

void *ls_alloc_aligned(size_t size) {
    if (size > SIZE_MAX - 2 * LS_ALIGNMENT) return NULL;
    size_t rounded = (size / LS_ALIGNMENT + 1) * LS_ALIGNMENT;
    void *memory = aligned_alloc(LS_ALIGNMENT, rounded);
    if (memory) memset(memory, 0, rounded);
    return memory;
}

char *ls_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = ls_alloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

void ls_free(void *memory) {
    free(memory);
}

void *ls_memory_noted(void *failed, size_t size) {
    void *memory = ls_alloc(size);
    if (!memory) *(bool *)failed = true;
    return memory;
}

void ls_memory_noted_free(void *failed, void *memory) {
    (void)failed;
    ls_free(memory);
}

void ls_memory_free(void *memory) {
    ls_free(memory);
}
