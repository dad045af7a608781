/* A folder that a test has filled. A program defines _GNU_SOURCE before it includes this, for nftw. */
#pragma once
#include <ftw.h>
#include <stdio.h>

static inline int folder_remove_one(const char *path, const struct stat *state, int kind, struct FTW *place) {
    (void)state, (void)kind, (void)place;
    return remove(path);
}
/* With all that is in it. Returns 0 where it is gone. */
static inline int folder_remove(const char *path) {
    return nftw(path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
