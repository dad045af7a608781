/* Processes that have been seen to end: by incarnation. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_CLOSED_MOST 65536 /* of them; further ones are not noted, which is as if they had not been seen */

struct ls_closed {
    uint64_t *incarnations; /* owns */
    int count, room;
};
void ls_closed_release(struct ls_closed *closed);
bool ls_closed_has(const struct ls_closed *closed, uint64_t incarnation);
/* Returns false if there is no memory, or no room. */
bool ls_closed_add(struct ls_closed *closed, uint64_t incarnation);
bool ls_closed_add_all(struct ls_closed *closed, const uint64_t *incarnations, int count);
/* It is there after all. */
void ls_closed_remove(struct ls_closed *closed, uint64_t incarnation);
