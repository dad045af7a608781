/* A list of outputs, the newest first. */
#include "strategy/kept.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "strategy/handover.h"

static size_t bytes_of(const struct ls_kept_heading *heading) {
    return (size_t)heading->rows * (size_t)heading->width * sizeof(float);
}

static ls_status make(const struct ls_kept_heading *heading, const void *values, struct ls_kept **kept) {
    size_t bytes = bytes_of(heading);
    struct ls_kept *made = ls_alloc(sizeof(*made));
    if (made) made->values = ls_alloc(bytes + 1);
    if (!made || !made->values) {
        ls_free(made);
        return ls_fail_memory("outputs for those who come back", bytes);
    }
    made->heading = *heading;
    memcpy(made->values, values, bytes);
    *kept = made;
    return LS_OK;
}

static void drop_oldest(struct ls_kept *list, size_t most) {
    size_t bytes = 0;
    for (struct ls_kept *kept = list; kept; kept = kept->next) {
        if (kept->next) bytes += bytes_of(&kept->next->heading);
        if (bytes <= most) continue;
        ls_kept_free(ls_steal(kept->next));
        return;
    }
}

ls_status ls_kept_add(struct ls_kept **list, const struct ls_kept_heading *heading, const float *values, size_t most) {
    struct ls_kept *made = NULL;
    ls_status status = make(heading, values, &made);
    if (status) return status;
    made->next = *list;
    *list = made;
    drop_oldest(made, most);
    return LS_OK;
}

const struct ls_kept *ls_kept_find(const struct ls_kept *list, int64_t call) {
    while (list && list->heading.call != call) list = list->next;
    return list;
}

void ls_kept_free(struct ls_kept *list) {
    while (list) {
        struct ls_kept *next = list->next;
        ls_free(list->values);
        ls_free(list);
        list = next;
    }
}

size_t ls_kept_size(const struct ls_kept *list) {
    size_t size = 0;
    for (; list; list = list->next) size += sizeof(list->heading) + ls_state_round(bytes_of(&list->heading));
    return size;
}

void ls_kept_write(const struct ls_kept *list, void *bytes) {
    char *at = bytes;
    for (; list; list = list->next) {
        memcpy(at, &list->heading, sizeof(list->heading));
        memcpy(at + sizeof(list->heading), list->values, bytes_of(&list->heading));
        at += sizeof(list->heading) + ls_state_round(bytes_of(&list->heading));
    }
}

/* Whether so many bytes behind it can hold what the heading says. */
static bool fits(const struct ls_kept_heading *heading, size_t left) {
    int64_t values;
    return heading->rows >= 0 && heading->width >= 0 &&
           !__builtin_mul_overflow(heading->rows, heading->width, &values) && (size_t)values <= left / sizeof(float) &&
           ls_state_round(bytes_of(heading)) <= left;
}

ls_status ls_kept_read(const void *bytes, size_t size, struct ls_kept **list) {
    struct ls_kept *first = NULL, **end = &first;
    const char *at = bytes;
    ls_status status = LS_OK;
    while (!status && size) {
        struct ls_kept_heading heading = {.rows = -1};
        if (size >= sizeof(heading)) memcpy(&heading, at, sizeof(heading));
        if (!fits(&heading, size - sizeof(heading))) {
            status = ls_fail(LS_DATA_LOSS, "the outputs that another worker gave are none of this version");
            break;
        }
        status = make(&heading, at + sizeof(heading), end);
        size_t taken = sizeof(heading) + ls_state_round(bytes_of(&heading));
        at += taken;
        size -= taken;
        if (!status) end = &(*end)->next;
    }
    if (status)
        ls_kept_free(first);
    else
        *list = first;
    return status;
}
