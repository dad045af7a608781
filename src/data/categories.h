/* Words and their numbers from 0: the categories of a column. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_category {
    char *name; /* owns */
    int32_t number;
};
struct ls_categories {
    struct ls_category **list; /* owns: by number */
    int64_t count, room;
    void *tree; /* owns them, by name: of tsearch */
};
/* The word's number, -1 for none. */
int32_t ls_categories_find(const struct ls_categories *categories, const char *word);
/* The same; a new word gets the next number. */
ls_status ls_categories_add(struct ls_categories *categories, const char *word, int32_t *number);
/* Numbers words anew in the order of their bytes, and numbers before words by size. places, freed with ls_free, has the
 * new number of each old one. */
ls_status ls_categories_sort(struct ls_categories *categories, int32_t **places);
void ls_categories_free(struct ls_categories *categories);
