/* A list of outputs, the newest first. */
#include "train/predict_cache.h"

#include <string.h>

#include "base/new.h"
#include "runtime/state_transfer.h"

static size_t bytes_of_values(const struct ls_predict_cache_heading *heading) {
    return (size_t)heading->rows * (size_t)heading->width * sizeof(float);
}

static ls_status make_cache(const struct ls_predict_cache_heading *heading, const void *values,
                            struct ls_predict_cache **kept) {
    size_t bytes = bytes_of_values(heading);
    struct ls_predict_cache *made = ls_alloc(sizeof(*made) + bytes);
    if (!made) return ls_fail_memory("outputs for those who come back", bytes);
    made->heading = *heading;
    memcpy(made->values, values, bytes);
    *kept = made;
    return LS_OK;
}

/* The newest outputs are kept whatever their size: a worker that comes back needs the last call's at least. bytes
 * counts from the second entry on. */
static void drop_oldest(struct ls_predict_cache *list, size_t most) {
    size_t bytes = 0;
    for (struct ls_predict_cache *kept = list; kept; kept = kept->next) {
        if (kept->next) bytes += bytes_of_values(&kept->next->heading);
        if (bytes <= most) continue;
        ls_predict_cache_free(ls_steal(kept->next));
        return;
    }
}

ls_status ls_predict_cache_add(struct ls_predict_cache **list, const struct ls_predict_cache_heading *heading,
                               const float *values, size_t most) {
    struct ls_predict_cache *made = NULL;
    ls_status status = make_cache(heading, values, &made);
    if (status) return status;
    made->next = *list;
    *list = made;
    drop_oldest(made, most);
    return LS_OK;
}

const struct ls_predict_cache *ls_predict_cache_find(const struct ls_predict_cache *list, int64_t call) {
    while (list && list->heading.call != call) list = list->next;
    return list;
}

void ls_predict_cache_free(struct ls_predict_cache *list) {
    while (list) {
        struct ls_predict_cache *next = list->next;
        ls_free(list);
        list = next;
    }
}

size_t ls_predict_cache_size(const struct ls_predict_cache *list) {
    size_t size = 0;
    for (; list; list = list->next)
        size += sizeof(list->heading) + ls_state_transfer_round(bytes_of_values(&list->heading));
    return size;
}

void ls_predict_cache_write(const struct ls_predict_cache *list, void *bytes) {
    char *at = bytes;
    for (; list; list = list->next) {
        memcpy(at, &list->heading, sizeof(list->heading));
        memcpy(at + sizeof(list->heading), list->values, bytes_of_values(&list->heading));
        at += sizeof(list->heading) + ls_state_transfer_round(bytes_of_values(&list->heading));
    }
}

/* True if the left bytes behind the heading can hold the values that it announces. */
static bool heading_fits(const struct ls_predict_cache_heading *heading, size_t left) {
    int64_t values;
    return heading->rows >= 0 && heading->width >= 0 &&
           !__builtin_mul_overflow(heading->rows, heading->width, &values) && (size_t)values <= left / sizeof(float) &&
           ls_state_transfer_round(bytes_of_values(heading)) <= left;
}

ls_status ls_predict_cache_read(const void *bytes, size_t size, struct ls_predict_cache **list) {
    struct ls_predict_cache *first = NULL, **end = &first;
    const char *at = bytes;
    ls_status status = LS_OK;
    while (!status && size) {
        struct ls_predict_cache_heading heading = {.rows = -1};
        if (size >= sizeof(heading)) memcpy(&heading, at, sizeof(heading));
        if (!heading_fits(&heading, size - sizeof(heading))) {
            status = ls_fail(LS_DATA_LOSS, "the outputs that another worker gave are none of this version");
            break;
        }
        status = make_cache(&heading, at + sizeof(heading), end);
        size_t taken = sizeof(heading) + ls_state_transfer_round(bytes_of_values(&heading));
        at += taken;
        size -= taken;
        if (!status) end = &(*end)->next;
    }
    return LS_HAND_OVER(status, list, first, ls_predict_cache_free(first));
}
