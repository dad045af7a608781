/* A folder of images, a class each subfolder. Mirrors tf.keras.utils.image_dataset_from_directory with x / 255: classes
 * and files in the order of their names' bytes. Files are read and decoded at each reading, by any number of threads.
 */
#include "data/images.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/grow.h"
#include "base/need.h"
#include "base/new.h"
#include "data/files.h"
#include "data/image.h"
#include "data/sources.h"
#include "data/reader.h"
#include "data/role.h"
#include "data/dataset.h"

struct images {
    struct ls_source source;
    struct ls_names classes;     /* folders' names */
    struct ls_image_paths paths; /* source.count of them have a label */
    int32_t *labels;             /* owns; NULL: there are none */
    int64_t label_room;
    struct ls_image_wish wish;
};

static const char *path_of_image(const struct ls_source *source, int64_t index) {
    return ((const struct images *)source)->paths.names.names[index];
}

static ls_status targets_of_image(const struct ls_source *source, int64_t index, const struct ls_targets *targets) {
    const struct images *images = (const struct images *)source;
    *targets->labels = images->labels ? images->labels[index] : 0;
    return LS_OK;
}

static ls_status read_images_encoded(const struct ls_source *source, int64_t index, uint8_t **bytes, size_t *size,
                                     const struct ls_targets *targets) {
    (void)targets_of_image(source, index, targets);
    return ls_file_read(path_of_image(source, index), bytes, size);
}

static ls_status read_images_example(const struct ls_source *source, int64_t index, float *features,
                                     const struct ls_targets *targets) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    size_t size;
    ls_status status = read_images_encoded(source, index, &bytes, &size, targets);
    return status ? status
                  : ls_picture_read(path_of_image(source, index), bytes, size, &((const struct images *)source)->wish,
                                    &(struct ls_image_place){&source->shape, features});
}

static ls_status check_file(const struct ls_source *source, int64_t index) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    size_t size;
    ls_status status = ls_file_read(path_of_image(source, index), &bytes, &size);
    return status ? status : ls_picture_check(path_of_image(source, index), bytes, size);
}

static const char *class_images_name(const struct ls_source *source, int label) {
    return ((const struct images *)source)->classes.names[label];
}

static int64_t file_of_images(const struct ls_source *source, int64_t index) {
    (void)source;
    return index;
}

static void free_images(struct ls_source *source) {
    struct images *images = (struct images *)source;
    ls_files_names_free(&images->paths.names);
    ls_free(images->labels);
    ls_files_names_free(&images->classes);
    ls_free(images);
}

static const struct ls_source_ops images_ops = {.read = read_images_example,
                                                .free = free_images,
                                                .encoded = read_images_encoded,
                                                .check = check_file,
                                                .class_name = class_images_name,
                                                .file = file_of_images,
                                                .targets = targets_of_image,
                                                .path = path_of_image};

static bool has_ending(const char *name, const char *const *ends) {
    while (*ends && !ls_files_has_ending(name, *ends)) ends++;
    return *ends;
}

bool ls_images_name(const char *name) {
    return has_ending(name, (const char *const[]){".jpg", ".jpeg", ".png", NULL});
}

ls_status ls_images_add_folder(struct ls_image_paths *paths, const char *folder, int depth) {
    enum { DEEPEST = 32 };
    static const char *const unread[] = {".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic", ".avif", NULL};
    LS_CLEANUP(ls_files_names_free) struct ls_names files = {0}, folders = {0};
    if (depth > DEEPEST)
        return ls_fail(LS_INVALID_ARGUMENT, "folder '%s' is %d folders deep: is one of them a link to one above it?",
                       folder, depth);
    ls_status status = ls_files_names_list(folder, LS_NAMES_FILES, &files);
    if (!status) status = ls_files_names_list(folder, LS_NAMES_FOLDERS, &folders);
    for (int64_t i = 0; i < files.count && !status; i++) {
        bool image = ls_images_name(files.names[i]);
        if (image)
            status = ls_files_names_add(&paths->names, &paths->capacity, ls_reader_path_join(folder, files.names[i]));
        paths->others += !image;
        paths->unread += has_ending(files.names[i], unread);
    }
    for (int64_t i = 0; i < folders.count && !status; i++) {
        LS_CLEANUP(ls_free_pointer) char *path = ls_reader_path_join(folder, folders.names[i]);
        status = path ? ls_images_add_folder(paths, path, depth + 1) : ls_fail_memory("a file name", 0);
    }
    return status;
}

static ls_status add_class(struct images *images, const char *folder, int32_t label) {
    ls_status status = ls_images_add_folder(&images->paths, folder, 1);
    if (!status)
        status = LS_GROW(images->labels, images->label_room, images->paths.names.count, 256, "the labels of images");
    while (!status && images->source.count < images->paths.names.count) images->labels[images->source.count++] = label;
    return status;
}

/* The folders below one: a folder each split, and classes. */
struct layout {
    const char *folder;
    struct ls_names folders;
    const char *splits[LS_ROLES]; /* borrow from folders; NULL: there is none */
};

static void free_layout(struct layout *layout) {
    ls_files_names_free(&layout->folders);
}

static ls_status has_folders(const char *folder, const char *name, bool *has) {
    LS_CLEANUP(ls_free_pointer) char *path = ls_reader_path_join(folder, name);
    LS_CLEANUP(ls_files_names_free) struct ls_names folders = {0};
    ls_status status = path ? ls_files_names_list(path, LS_NAMES_FOLDERS, &folders) : ls_fail_memory("a file name", 0);
    *has = folders.count > 0;
    return status;
}

static int role_of(const char *name) {
    return ls_role_of_word(name, strlen(name));
}

/* A folder of a split's name that has no classes is a class where none is named as the training split. */
static ls_status find_layout(const char *folder, struct layout *layout) {
    bool trained = false;
    layout->folder = folder;
    ls_status status = ls_files_names_list(folder, LS_NAMES_FOLDERS, &layout->folders);
    const struct ls_names *names = &layout->folders;
    for (int64_t i = 0; i < names->count; i++) trained = trained || role_of(names->names[i]) == LS_TRAIN;
    for (int64_t i = 0; i < names->count && !status; i++) {
        int role = role_of(names->names[i]);
        bool is_one = trained;
        if (role == LS_ROLE_NONE) continue;
        if (!trained) status = has_folders(folder, names->names[i], &is_one);
        if (status || !is_one) continue;
        if (layout->splits[role])
            return ls_fail(LS_INVALID_ARGUMENT, "folder '%s' has both '%s' and '%s': leave one %s split in it", folder,
                           layout->splits[role], names->names[i], ls_role_name((ls_split)role));
        layout->splits[role] = names->names[i];
    }
    return status;
}

static bool is_split(const struct layout *layout, const char *name) {
    for (int role = 0; layout && role < LS_ROLES; role++)
        if (layout->splits[role] && !strcmp(layout->splits[role], name)) return true;
    return false;
}

/* All class folders below folder, but for the layout's splits; one that is no class of the training split is a mistake.
 */
static ls_status add_classes(struct images *images, const char *folder, const struct layout *layout) {
    LS_CLEANUP(ls_files_names_free) struct ls_names folders = {0};
    ls_status status = ls_files_names_list(folder, LS_NAMES_FOLDERS, &folders);
    for (int64_t i = 0; i < folders.count && !status; i++) {
        int64_t label = ls_files_names_find(&images->classes, folders.names[i]);
        if (is_split(layout, folders.names[i])) continue;
        if (label < 0)
            return ls_fail(LS_INVALID_ARGUMENT, "folder '%s' has class '%s', which the training images do not have",
                           folder, folders.names[i]);
        LS_CLEANUP(ls_free_pointer) char *path = ls_reader_path_join(folder, folders.names[i]);
        status = path ? add_class(images, path, (int32_t)label) : ls_fail_memory("a file name", 0);
    }
    return status;
}

/* "CLASS/NAME", the end of a picture's path. */
static const char *short_name(const char *path) {
    const char *name = path + strlen(path);
    for (int folders = 0; name > path && (name[-1] != '/' || folders++ == 0);) name--;
    return name;
}

/* And sizes: what 16 examples do not show is found by them. */
static ls_status digest_names(struct images *images) {
    struct ls_digest *digest;
    ls_status status = ls_digest_new(&digest);
    if (status) return status;
    for (int64_t i = 0; i < images->source.count && !status; i++) {
        const char *name = short_name(images->paths.names.names[i]);
        int64_t size = 0;
        status = ls_file_size(images->paths.names.names[i], &size);
        ls_digest_add(digest, name, strlen(name) + 1);
        ls_digest_add(digest, &size, sizeof(size));
    }
    if (!status) status = ls_digest_hex(digest, images->source.names_sha256);
    ls_digest_free(digest);
    return status;
}

ls_status ls_images_present(const char *folder, bool *present) {
    LS_CLEANUP(ls_files_names_free) struct ls_names folders = {0};
    ls_status status = ls_files_names_list(folder, LS_NAMES_FOLDERS, &folders);
    if (!status) *present = folders.count > 0;
    return status;
}

/* Classes are those of the training split, so that all splits number them alike. */
static ls_status name_classes(struct images *images, const struct layout *layout, ls_split split) {
    const char *train = layout->splits[LS_TRAIN];
    int64_t capacity = 0;
    ls_status status = LS_OK;
    for (int64_t i = 0; !train && i < layout->folders.count && !status; i++)
        if (!is_split(layout, layout->folders.names[i]))
            status = ls_files_names_add(&images->classes, &capacity, ls_strdup(layout->folders.names[i]));
    const char *from = train ? train : layout->splits[split];
    if (status || images->classes.count || !from) return status;
    LS_CLEANUP(ls_free_pointer) char *path = ls_reader_path_join(layout->folder, from);
    return path ? ls_files_names_list(path, LS_NAMES_FOLDERS, &images->classes) : ls_fail_memory("a file name", 0);
}

static ls_status list_examples(struct images *images, const char *folder, ls_split *split) {
    LS_CLEANUP(free_layout) struct layout layout = {0};
    ls_status status = find_layout(folder, &layout);
    if (status) return status;
    *split = ls_role_choose(*split, layout.splits);
    const char *own = layout.splits[*split];
    if (*split != LS_TRAIN && !own)
        return ls_fail(LS_NOT_FOUND, "folder '%s' has no folder test, validation or val", folder);
    LS_CLEANUP(ls_free_pointer) char *read = own ? ls_reader_path_join(folder, own) : ls_strdup(folder);
    if (!read) return ls_fail_memory("a file name", 0);
    status = name_classes(images, &layout, *split);
    if (!status) status = add_classes(images, read, own ? NULL : &layout);
    if (status || images->source.count) return status;
    return ls_fail(LS_NOT_FOUND, "folder '%s' holds no CLASS/NAME.jpg, .jpeg or .png", read);
}

static ls_status settle_shape(struct images *images, const char *path, const ls_dataset_options *options) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    size_t size;
    ls_status status = ls_file_read(path, &bytes, &size);
    return status ? status : ls_picture_settle(path, bytes, size, options, &images->wish, &images->source.shape);
}

/* Size and channels that were not asked for are the first image's, of those that will be left. */
static ls_status find_first_shape(struct images *images, const ls_dataset_options *options) {
    ls_status status = LS_DATA_LOSS;
    for (int64_t i = 0; i < images->source.count && status == LS_DATA_LOSS; i++) {
        status = settle_shape(images, images->paths.names.names[i], options);
        if (options->damage == LS_DAMAGE_FAILS) break;
    }
    return status;
}

/* Images of which some are in colour are all so: a first one that is grey does not decide for those that follow. As
 * many as LOOKED_AT, evenly over all, are asked. */
static ls_status find_shape(struct images *images, const ls_dataset_options *options) {
    enum { LOOKED_AT = 200 };
    int64_t count = images->source.count, step = count / LOOKED_AT + 1;
    ls_status status = find_first_shape(images, options);
    if (status || options->image_channels || images->source.shape.dims[2] != 1) return status;
    struct images other = *images;
    for (int64_t i = 0; i < count; i += step) {
        if (settle_shape(&other, images->paths.names.names[i], options) || other.source.shape.dims[2] == 1) continue;
        ls_dataset_options colour = *options;
        colour.image_channels = (int)other.source.shape.dims[2];
        return find_first_shape(images, &colour);
    }
    return LS_OK;
}

/* Images that are listed. */
static ls_status settle_all(struct images *images, const ls_dataset_options *options) {
    images->source.classes = (int)images->classes.count;
    images->source.files = images->source.count;
    images->source.others = images->paths.others;
    images->source.unread = images->paths.unread;
    ls_status status = digest_names(images);
    return status ? status : find_shape(images, options);
}

/* The split becomes the one that is read. */
static ls_status finish_dataset(struct ls_source **source, const char *folder, const ls_dataset_options *options) {
    struct images *images = (struct images *)*source;
    ls_status status = list_examples(images, folder, &images->source.split);
    return status ? status : settle_all(images, options);
}

ls_status ls_dataset_images(const char *folder, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(dataset);
    static const struct ls_source_start start = {.source = {.ops = &images_ops, .kind = "images", .slow = true},
                                                 .size = sizeof(struct images),
                                                 .folder = true,
                                                 .open = finish_dataset};
    return ls_source_open(&start, folder, options, dataset);
}

ls_status ls_images_of_paths(struct ls_image_paths *paths, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEW(struct images, images, "a dataset");
    images->source = (struct ls_source){
        .ops = &images_ops, .kind = "images", .slow = true, .unlabelled = true, .split = options->split};
    images->paths = *paths;
    images->source.count = paths->names.count;
    *paths = (struct ls_image_paths){0};
    return ls_dataset_from_source(settle_all(images, options), &images->source, options, dataset);
}
