/* A balanced tree finds the words, and a list has them by number. */
#define _GNU_SOURCE /* tdestroy */
#include "data/categories.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/new.h"

static int compare_words(const void *left, const void *right) {
    return strcmp(((const struct ls_category *)left)->name, ((const struct ls_category *)right)->name);
}

int32_t ls_categories_find(const struct ls_categories *categories, const char *word) {
    const struct ls_category key = {.name = (char *)(uintptr_t)word};
    struct ls_category *const *found = tfind(&key, &categories->tree, compare_words);
    return found ? (*found)->number : -1;
}

static void free_category(void *category) {
    ls_free(((struct ls_category *)category)->name);
    ls_free(category);
}

ls_status ls_categories_add(struct ls_categories *categories, const char *word, int32_t *number) {
    *number = ls_categories_find(categories, word);
    if (*number >= 0) return LS_OK;
    ls_status status = LS_GROW(categories->list, categories->room, categories->count + 1, 32, "categories");
    if (status) return status;
    LS_NEW(struct ls_category, made, "a category");
    *made = (struct ls_category){ls_strdup(word), (int32_t)categories->count};
    if (!made->name || !tsearch(made, &categories->tree, compare_words)) {
        free_category(made);
        return ls_fail_memory("a category", strlen(word));
    }
    *number = made->number;
    categories->list[categories->count++] = made;
    return LS_OK;
}

static bool is_integer(const char *name) {
    return name[(*name == '-') + strspn(name + (*name == '-'), "0123456789")] == '\0';
}

/* Numbers without zeros in front are as long as they are large. */
static int compare_categories(const void *left, const void *right) {
    const char *a = (*(struct ls_category *const *)left)->name, *b = (*(struct ls_category *const *)right)->name;
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
    LS_NEW_ARRAY(int32_t, made, count, "categories");
    if (count) qsort(categories->list, count, sizeof(*categories->list), compare_categories);
    for (size_t i = 0; i < count; i++) {
        made[categories->list[i]->number] = (int32_t)i;
        categories->list[i]->number = (int32_t)i;
    }
    *places = made;
    return LS_OK;
}

void ls_categories_free(struct ls_categories *categories) {
    tdestroy(categories->tree, free_category);
    ls_free(categories->list);
    *categories = (struct ls_categories){0};
}
