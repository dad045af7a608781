/* Outputs of predict that are kept for workers which come back later than the others have gone on. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_kept_heading {
    int64_t call, rows, width; /* rows x width floats */
};
struct ls_kept {
    struct ls_kept *next;
    struct ls_kept_heading heading;
    float *values; /* owns */
};
/* Copies values, as the newest. Of those before so many bytes stay, the oldest go first. */
ls_status ls_kept_add(struct ls_kept **list, const struct ls_kept_heading *heading, const float *values, size_t most);
/* Borrowed; NULL: not kept, or not any more. */
const struct ls_kept *ls_kept_find(const struct ls_kept *list, int64_t call);
void ls_kept_free(struct ls_kept *list);
/* As bytes, in whole words of 8, and back: *list is written only on success, and DATA_LOSS is for what is no list. */
size_t ls_kept_size(const struct ls_kept *list);
void ls_kept_write(const struct ls_kept *list, void *bytes);
ls_status ls_kept_read(const void *bytes, size_t size, struct ls_kept **list);
