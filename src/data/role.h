/* The splits that names mean: one table for folders of images, arrays and records, of whole words in any case. */
#pragma once
#include <lockstep/lockstep.h>

enum { LS_ROLES = LS_VALIDATION + 1, LS_ROLE_NONE = -1 };

/* "train", "test" or "validation", as messages and files have it. */
const char *ls_role_name(ls_split split);
/* The index-th word that means a split; NULL past the last. */
const char *ls_role_word(ls_split split, size_t index);
/* The split that size bytes mean as a whole, or LS_ROLE_NONE. */
int ls_role_of_word(const char *text, size_t size);
/* That of the last word in a name that means one: letters stand neither before nor behind it. */
int ls_role_of_name(const char *name);
/* The split that is read where those that are not NULL are there: validation and test stand in for each other. */
ls_split ls_role_choose(ls_split wanted, const char *const there[LS_ROLES]);
/* Of a source that has a training and a test split. */
ls_split ls_role_of_two(ls_split wanted);
