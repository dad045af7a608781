/* A file's whole name is the word of its split: train.csv, and val.csv.gz. */
#include "data/sources.h"

#include <string.h>

#include "base/memory.h"
#include "base/plain.h"
#include "base/status.h"
#include "data/files.h"
#include "data/reader.h"
#include "data/role.h"

static const char *const endings[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz"};

/* The length of path without such an ending; 0 where it has none. */
static size_t stem_of(const char *path) {
    size_t size = strlen(path);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t length = strlen(endings[i]);
        if (size > length && ls_plain_same(path + size - length, endings[i])) return size - length;
    }
    return 0;
}

bool ls_table_files_name(const char *path) {
    return stem_of(path) > 0;
}

/* The name of each split's file, in a folder's names; NULL without one. */
static ls_status choose_files(const char *folder, const struct ls_names *names, const char *chosen[LS_ROLES]) {
    for (int64_t i = 0; i < names->count; i++) {
        int role = ls_role_of_word(names->names[i], stem_of(names->names[i]));
        if (role == LS_ROLE_NONE) continue;
        if (chosen[role])
            return ls_fail(LS_INVALID_ARGUMENT, "'%s' has both %s and %s: leave one %s split in it", folder,
                           chosen[role], names->names[i], ls_role_name((ls_split)role));
        chosen[role] = names->names[i];
    }
    return LS_OK;
}

ls_status ls_table_files_present(const char *folder, bool *present) {
    LS_CLEANUP(ls_files_names_free) struct ls_names names = {0};
    ls_status status = ls_files_names_list(folder, LS_NAMES_FILES, &names);
    *present = false;
    for (int64_t i = 0; i < names.count; i++)
        *present = *present || ls_role_of_word(names.names[i], stem_of(names.names[i])) != LS_ROLE_NONE;
    return status;
}

ls_status ls_table_files_find(const char *folder, ls_split *split, char **path) {
    LS_CLEANUP(ls_files_names_free) struct ls_names names = {0};
    const char *chosen[LS_ROLES] = {NULL};
    ls_status status = ls_files_names_list(folder, LS_NAMES_FILES, &names);
    if (!status) status = choose_files(folder, &names, chosen);
    if (status) return status;
    *split = ls_role_choose(*split, chosen);
    if (!chosen[*split]) return ls_fail(LS_NOT_FOUND, "folder '%s' has no %s.csv", folder, ls_role_name(*split));
    *path = ls_reader_path_join(folder, chosen[*split]);
    return *path ? LS_OK : ls_fail_memory("a file name", 0);
}
