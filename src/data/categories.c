/* A table of hashes with open addressing, at most half full. */
#include "data/categories.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/random.h"

#define FIRST_SLOTS 64

static size_t hash(const char *word) {
    uint64_t value = ls_random_stream(word);
    return (size_t)(value ^ value >> 32);
}

/* The slot that has the word, or is free for it. */
static size_t find_slot(const struct ls_categories *categories, const char *word) {
    size_t slot = hash(word) & (categories->slot_count - 1);
    while (categories->slots[slot] >= 0 && strcmp(categories->names[categories->slots[slot]], word) != 0)
        slot = (slot + 1) & (categories->slot_count - 1);
    return slot;
}

int32_t ls_categories_find(const struct ls_categories *categories, const char *word) {
    return categories->slot_count ? categories->slots[find_slot(categories, word)] : -1;
}

/* Fills slots anew from names. */
static void hash_again(struct ls_categories *categories) {
    for (size_t i = 0; i < categories->slot_count; i++) categories->slots[i] = -1;
    for (int64_t i = 0; i < categories->count; i++)
        categories->slots[find_slot(categories, categories->names[i])] = (int32_t)i;
}

static ls_status grow_names(struct ls_categories *categories) {
    int64_t room = categories->room;
    if (categories->count < room) return LS_OK;
    ls_status status = LS_GROW(categories->names, room, categories->count + 1, FIRST_SLOTS / 2, "categories");
    if (status) return status;
    int32_t *slots = room > INT32_MAX / 2 ? NULL : ls_alloc_array((size_t)room * 2, sizeof(*slots));
    if (!slots) return ls_fail_memory("categories", (size_t)room * sizeof(*categories->names));
    ls_free(categories->slots);
    categories->slots = slots;
    categories->room = room;
    categories->slot_count = (size_t)room * 2;
    hash_again(categories);
    return LS_OK;
}

ls_status ls_categories_add(struct ls_categories *categories, const char *word, int32_t *number) {
    *number = ls_categories_find(categories, word);
    if (*number >= 0) return LS_OK;
    ls_status status = grow_names(categories);
    char *name = status ? NULL : ls_strdup(word);
    if (!name) return status ? status : ls_fail_memory("a category", strlen(word));
    *number = (int32_t)categories->count;
    categories->slots[find_slot(categories, word)] = *number;
    categories->names[categories->count++] = name;
    return LS_OK;
}

struct placed {
    char *name;
    int32_t number;
};

static bool is_integer(const char *name) {
    return name[(*name == '-') + strspn(name + (*name == '-'), "0123456789")] == '\0';
}

/* Numbers without zeros in front are as long as they are large. */
static int compare_placed(const void *left, const void *right) {
    const char *a = ((const struct placed *)left)->name, *b = ((const struct placed *)right)->name;
    bool minus = *a == '-';
    if (is_integer(a) != is_integer(b)) return is_integer(a) ? -1 : 1;
    if (!is_integer(a)) return strcmp(a, b);
    if (minus != (*b == '-')) return minus ? -1 : 1;
    size_t length_a = strlen(a), length_b = strlen(b);
    int order = length_a != length_b ? (length_a < length_b ? -1 : 1) : strcmp(a, b);
    return minus ? -order : order;
}

ls_status ls_categories_sort(struct ls_categories *categories, int32_t **places) {
    size_t count = (size_t)categories->count;
    LS_CLEANUP(ls_free_pointer) struct placed *placed = ls_alloc_array(count, sizeof(*placed));
    int32_t *made = ls_alloc_array(count, sizeof(*made));
    if (!placed || !made) {
        ls_free(made);
        return ls_fail_memory("categories", count * sizeof(*placed));
    }
    for (size_t i = 0; i < count; i++) placed[i] = (struct placed){categories->names[i], (int32_t)i};
    qsort(placed, count, sizeof(*placed), compare_placed);
    for (size_t i = 0; i < count; i++) {
        categories->names[i] = placed[i].name;
        made[placed[i].number] = (int32_t)i;
    }
    hash_again(categories);
    *places = made;
    return LS_OK;
}

void ls_categories_free(struct ls_categories *categories) {
    for (int64_t i = 0; i < categories->count; i++) ls_free(categories->names[i]);
    ls_free(categories->names);
    ls_free(categories->slots);
    *categories = (struct ls_categories){0};
}
