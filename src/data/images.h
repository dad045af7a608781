/* A folder of images, a class each subfolder. */
#pragma once
#include "data/files.h"
#include "data/sources.h"

/* Images' files, and how many others were passed over, of which unread are images by their names. */
struct ls_image_paths {
    struct ls_names names; /* takes */
    int64_t others, unread;
};
/* A dataset of them without labels. options are filled in. */
ls_status ls_images_of_paths(struct ls_image_paths *paths, const ls_dataset_options *options, ls_dataset **dataset);
/* Folders below each other: more is a link to a folder above, which is INVALID_ARGUMENT. */
enum { LS_IMAGES_DEEPEST = 32 };
ls_status ls_images_fail_depth(const char *folder, int depth);
/* True for the endings of images that are read; of those that are not. */
bool ls_images_name(const char *name);
bool ls_images_unread_name(const char *name);
ls_status ls_images_present(const char *folder, bool *present);
