/* Allocation, and locals that clean themselves up.
 *
 *     LS_CLEANUP(ls_free_pointer) char *text = ls_alloc(100);
 *     ...
 *     *output = ls_steal(text); */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_ALIGNMENT 64 /* of every tensor and blob: a cache line, the widest vector */

struct ls_bytes {
    void *data;
    size_t size;
};

/* Zeroed memory; NULL when there is none (the caller reports it with ls_fail_memory). size 0 gives a valid pointer. */
void *ls_alloc(size_t size);
/* count * size zeroed bytes; NULL on overflow too. */
void *ls_alloc_array(size_t count, size_t size);
/* As ls_alloc, aligned to LS_ALIGNMENT; freed with ls_free too. */
void *ls_alloc_aligned(size_t size);
/* The same for memory that takes room where it is touched, if it is large. */
void *ls_memory_untouched(size_t size);
/* Zeroes memory of this process alone; whole pages of it take no room until they are touched, if it is large. */
void ls_memory_clear(void *memory, size_t size);
char *ls_strdup(const char *text);
void ls_free(void *memory);

/* As ls_alloc, and *(bool *)failed becomes true where there is none: a decoder in a library tells damage and want of
 * memory alike. ls_memory_noted_free is its counterpart. */
void *ls_memory_noted(void *failed, size_t size);
void ls_memory_noted_free(void *failed, void *memory);

static inline size_t ls_smaller_size(size_t a, size_t b) {
    return a < b ? a : b;
}
static inline void ls_free_pointer(void *pointer) {
    ls_free(*(void **)pointer);
}
static inline void *ls_steal_pointer(void **pointer) {
    void *value = *pointer;
    *pointer = NULL;
    return value;
}
#define LS_CLEANUP(function) __attribute__((cleanup(function)))
/* Declares name, for LS_CLEANUP of what a library's function frees: LS_CLEANER(free_door, struct door *, door_free); */
#define LS_CLEANER(name, type, release)                                                                                \
    static inline void name(type *place) {                                                                             \
        release(*place);                                                                                               \
    }                                                                                                                  \
    static inline void name(type *place)
#define ls_steal(variable) ((__typeof__(variable))ls_steal_pointer((void **)&(variable)))

/* The memory that this process may have: the least of what the user sets, its cgroups allow, and the machine has. */

struct ls_memory_limit {
    size_t bytes;
    int of; /* for ls_memory_limit_name */
};
/* "LOCKSTEP_MEMORY_LIMIT", "its cgroup", "the machine"; that for any other number too. */
const char *ls_memory_limit_name(int64_t of);
/* set: what the user says, 0: nothing. root precedes the paths of /proc and /sys: "" but in tests. */
struct ls_memory_limit ls_memory_limit_find(int64_t set, const char *root);
