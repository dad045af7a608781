/* Whole files, and the names in a folder. */
#pragma once
#include <lockstep/lockstep.h>

/* Reads a file as it is. *bytes is freed with ls_free. NOT_FOUND when there is none, DATA_LOSS when it ends too soon.
 */
ls_status ls_file_read(const char *path, uint8_t **bytes, size_t *size);
/* Writes a file anew; one that is to be there whole is staged, or a whole_file. */
ls_status ls_file_write(const char *path, const void *bytes, size_t size);
/* In bytes. */
ls_status ls_file_size(const char *path, int64_t *size);
/* Makes a folder unless it is there; the one above it must be. */
ls_status ls_files_folder_make(const char *path);

/* Names in the order of their bytes, as Python sorts them. */
struct ls_names {
    char **names; /* own */
    int64_t count;
};
enum ls_name_kind { LS_NAMES_FOLDERS, LS_NAMES_FILES };
/* *is: there is a folder or file of that name. It may be unreadable; opening it tells why. */
ls_status ls_file_is(const char *path, enum ls_name_kind kind, bool *is);
/* True if the name's last dot begins that ending, such as ".csv", in any case of letters. */
bool ls_files_has_ending(const char *path, const char *ending);
/* The names in folder of that kind, but for those that begin with a dot. */
ls_status ls_files_names_list(const char *folder, enum ls_name_kind kind, struct ls_names *names);
/* The place of name in names, or -1. */
int64_t ls_files_names_find(const struct ls_names *names, const char *name);
/* The lines of a text file, in their order. */
ls_status ls_files_names_read(const char *path, struct ls_names *names);
/* Takes name, of ls_alloc, behind the last; NULL is no memory. *capacity is 0 at first. */
ls_status ls_files_names_add(struct ls_names *names, int64_t *capacity, char *name);
void ls_files_names_free(struct ls_names *names);
