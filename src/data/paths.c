/* Files without labels, for predict: images, folders of them, lists of their names, or one file of NumPy's. Mirrors
 * tf.keras.utils.image_dataset_from_directory with labels=None. */
#include <string.h>

#include "base/memory.h"
#include "base/need.h"
#include "base/status.h"
#include "data/dataset.h"
#include "data/files.h"
#include "data/images.h"
#include "data/sources.h"
#include "data/reader.h"

static ls_status add_path(struct ls_image_paths *found, const char *path, bool listed);

static ls_status add_list(struct ls_image_paths *found, const char *path) {
    LS_CLEANUP(ls_files_names_free) struct ls_names lines = {0};
    ls_status status = ls_files_names_read(path, &lines);
    for (int64_t i = 0; i < lines.count && !status; i++) {
        status = add_path(found, lines.names[i], true);
        if (status) return ls_fail_context(status, "list '%s'", path);
    }
    return status;
}

static ls_status add_path(struct ls_image_paths *found, const char *path, bool listed) {
    bool folder = false;
    ls_status status = path && *path ? ls_file_is(path, LS_NAMES_FOLDERS, &folder) : LS_OK;
    if (status) return status;
    if (!path || !*path) return ls_fail(LS_INVALID_ARGUMENT, "a path is empty");
    if (folder) return ls_images_add_folder(found, path, 1);
    if (ls_images_name(path)) return ls_files_names_add(&found->names, &found->capacity, ls_strdup(path));
    if (ls_files_has_ending(path, ".txt") && !listed) return add_list(found, path);
    return ls_fail(LS_INVALID_ARGUMENT, "'%s' is no folder, no .jpg, .jpeg or .png%s", path,
                   listed ? "" : ", no .txt with a path a line, and no .npy, .npz or .csv alone");
}

static ls_status open_images(const char *const *paths, size_t count, const ls_dataset_options *options,
                             ls_dataset **dataset) {
    struct ls_image_paths found = {{0}, 0, 0, 0};
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++) status = add_path(&found, paths[i], false);
    if (!status && !found.names.count)
        status = ls_fail(LS_NOT_FOUND, "'%s'%s holds no .jpg, .jpeg or .png, but %lld other files", paths[0],
                         count > 1 ? " and what follows" : "", (long long)found.others);
    if (!status) status = ls_images_of_paths(&found, options, dataset);
    ls_files_names_free(&found.names);
    return status;
}

ls_status ls_dataset_paths(const char *const *paths, size_t count, const ls_dataset_options *options,
                           ls_dataset **dataset) {
    LS_NEED(paths, dataset);
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (status) return status;
    if (!count) return ls_fail(LS_INVALID_ARGUMENT, "no path is given");
    bool table = false;
    if (count == 1) status = ls_table_meant(paths[0], &filled, &table);
    if (status) return status;
    if (table) return ls_dataset_csv(paths[0], &filled, dataset);
    bool array =
        count == 1 && paths[0] && (ls_files_has_ending(paths[0], ".npy") || ls_files_has_ending(paths[0], ".npz"));
    return array ? ls_numpy_unlabelled(paths[0], &filled, dataset) : open_images(paths, count, &filled, dataset);
}
