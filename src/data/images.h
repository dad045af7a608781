/* A folder of images, a class each subfolder. */
#pragma once
#include "data/files.h"
#include "data/sources.h"

/* Images' files, and how many others were passed over, of which unread are images by their names. */
struct ls_image_paths {
    struct ls_names names; /* own */
    int64_t capacity;      /* of names */
    int64_t others, unread;
};
/* Adds a folder's images in the order of their names, then those of the folders in it, as Keras walks them. depth is 1
 * at first: a folder that is too deep is a link to one above, which is INVALID_ARGUMENT. */
ls_status ls_images_add_folder(struct ls_image_paths *paths, const char *folder, int depth);
/* A dataset of them without labels, which takes them. options are filled in. */
ls_status ls_images_of_paths(struct ls_image_paths *paths, const ls_dataset_options *options, ls_dataset **dataset);
/* True for the endings of images that are read. */
bool ls_images_name(const char *name);
ls_status ls_images_present(const char *folder, bool *present);
