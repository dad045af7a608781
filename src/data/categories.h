/* Words and their numbers from 0: the categories of a column. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_categories {
    char **names; /* own */
    int64_t count, room;
    int32_t *slots; /* owns: [slot_count] numbers by hash, -1 in free ones; slot_count is a power of 2 */
    size_t slot_count;
};
/* The word's number, -1 for none. */
int32_t ls_categories_find(const struct ls_categories *categories, const char *word);
/* The same; a new word gets the next number. */
ls_status ls_categories_add(struct ls_categories *categories, const char *word, int32_t *number);
/* Numbers words anew in the order of their bytes, and numbers before words by size. places, freed with ls_free, has the
 * new number of each old one. */
ls_status ls_categories_sort(struct ls_categories *categories, int32_t **places);
void ls_categories_free(struct ls_categories *categories);
