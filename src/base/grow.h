/* Arrays that grow by doubling. */
#pragma once
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"

struct ls_growth {
    size_t element;   /* bytes of one */
    size_t first;     /* elements of the first room, 1 or more */
    size_t most;      /* elements at most */
    const char *what; /* of the error */
};
/* Makes room for needed elements in *(void **)array, an array of ls_alloc's or NULL. New elements are zero. Without
 * memory nothing changes but this thread's message. */
ls_status ls_grow(void *array, size_t *capacity, size_t needed, const struct ls_growth *growth);

/* The same of any pointer, and a capacity of any integer type. */
#define LS_GROW(array, capacity, needed, first, what)                                                                  \
    __extension__({                                                                                                    \
        size_t had_ = (size_t)(capacity), needed_ = (size_t)(needed);                                                  \
        size_t most_ = sizeof(capacity) < sizeof(size_t) ? INT32_MAX : SIZE_MAX;                                       \
        const struct ls_growth growth_ = {sizeof(*(array)), first, most_, what};                                       \
        ls_status grown_ = needed_ <= had_ ? LS_OK : ls_grow((void *)&(array), &had_, needed_, &growth_);              \
        (capacity) = (__typeof__(capacity))had_;                                                                       \
        grown_;                                                                                                        \
    })
