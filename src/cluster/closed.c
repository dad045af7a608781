/* A set of incarnations, few enough for a plain search. */
#include "cluster/closed.h"

#include <string.h>

#include "base/grow.h"

void ls_closed_release(struct ls_closed *closed) {
    ls_free(closed->incarnations);
    *closed = (struct ls_closed){0};
}

static int find_incarnation(const struct ls_closed *closed, uint64_t incarnation) {
    for (int i = 0; i < closed->count; i++)
        if (closed->incarnations[i] == incarnation) return i;
    return -1;
}

bool ls_closed_has(const struct ls_closed *closed, uint64_t incarnation) {
    return find_incarnation(closed, incarnation) >= 0;
}

static bool grow_incarnations(struct ls_closed *closed) {
    return closed->count < closed->room ||
           (2 * closed->room <= LS_CLOSED_MOST &&
            !LS_GROW(closed->incarnations, closed->room, closed->count + 1, 4, "the incarnations that left"));
}

bool ls_closed_add(struct ls_closed *closed, uint64_t incarnation) {
    if (find_incarnation(closed, incarnation) >= 0) return true;
    if (!grow_incarnations(closed)) return false;
    closed->incarnations[closed->count++] = incarnation;
    return true;
}

bool ls_closed_add_all(struct ls_closed *closed, const uint64_t *incarnations, int count) {
    for (int i = 0; i < count; i++)
        if (!ls_closed_add(closed, incarnations[i])) return false;
    return true;
}

void ls_closed_remove(struct ls_closed *closed, uint64_t incarnation) {
    int at = find_incarnation(closed, incarnation);
    if (at >= 0) closed->incarnations[at] = closed->incarnations[--closed->count];
}
