/* Allocation through the C library, so that a test can make the k-th call fail by wrapping calloc and aligned_alloc. */
#include "base/memory.h"

#include <lockstep/lockstep.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

void *ls_alloc(size_t size) {
    return calloc(1, size ? size : 1);
}

void *ls_alloc_array(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL; /* AddressSanitizer ends a calloc of so many */
    return ls_alloc(bytes);
}

static void *take_aligned(size_t size, size_t *rounded) {
    if (size > SIZE_MAX - 2 * LS_ALIGNMENT) return NULL;
    *rounded = (size / LS_ALIGNMENT + 1) * LS_ALIGNMENT;
    return aligned_alloc(LS_ALIGNMENT, *rounded);
}

void *ls_alloc_aligned(size_t size) {
    size_t rounded;
    void *memory = take_aligned(size, &rounded);
    if (memory) memset(memory, 0, rounded);
    return memory;
}

void *ls_memory_untouched(size_t size) {
    size_t rounded;
    void *memory = take_aligned(size, &rounded);
    if (memory) ls_memory_clear(memory, rounded);
    return memory;
}

/* Pages that are given back read as zeros. */
void ls_memory_clear(void *memory, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)memory % page) % page;
    char *first = memory;
    if (size < LARGE || madvise(first + before, (size - before) / page * page, MADV_DONTNEED)) {
        memset(memory, 0, size);
        return;
    }
    size_t after = (size - before) % page;
    memset(first, 0, before);
    memset(first + size - after, 0, after);
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
