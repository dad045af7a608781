/* Outputs of predict that are kept for workers which come back later than the others have gone on. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_predict_cache_heading {
    int64_t call, rows, width; /* rows x width floats */
};
struct ls_predict_cache {
    struct ls_predict_cache *next;
    struct ls_predict_cache_heading heading;
    float values[];
};
/* Copies values, as the newest. Of those before so many bytes stay, the oldest go first. */
ls_status ls_predict_cache_add(struct ls_predict_cache **list, const struct ls_predict_cache_heading *heading,
                               const float *values, size_t most);
/* Borrowed; NULL if not kept, or not any more. */
const struct ls_predict_cache *ls_predict_cache_find(const struct ls_predict_cache *list, int64_t call);
void ls_predict_cache_free(struct ls_predict_cache *list);
/* As bytes, in whole words of 8, and back: *list is written only on success, and DATA_LOSS is for what is no list. */
size_t ls_predict_cache_size(const struct ls_predict_cache *list);
void ls_predict_cache_write(const struct ls_predict_cache *list, void *bytes);
ls_status ls_predict_cache_read(const void *bytes, size_t size, struct ls_predict_cache **list);
