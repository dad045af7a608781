/* ls_dataset_write: goes through the examples and gives each to the format's table. Files are made in a folder beside
 * what is there, and moved up when all of them are. */
#define _GNU_SOURCE
#include "data/write.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/shape.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/options.h"
#include "base/status.h"
#include "data/files.h"
#include "data/image.h"
#include "data/reader.h"
#include "data/sources.h"
#include "data/role.h"

#define DEFAULT_QUALITY 95
#define MAX_SHARDS      99999

bool ls_write_is_image(const struct ls_write *write) {
    const ls_shape *shape = &write->dataset->source->shape;
    return shape->rank == 3 && (shape->dims[2] == 1 || shape->dims[2] == 3) && shape->dims[0] <= LS_IMAGE_MAX_SIDE &&
           shape->dims[1] <= LS_IMAGE_MAX_SIDE;
}

static ls_status encode_next(const struct ls_write *write, uint8_t **bytes, size_t *size,
                             const struct ls_targets *targets) {
    const struct ls_source *source = write->dataset->source;
    size_t count = (size_t)ls_shape_count(&source->shape);
    LS_CLEANUP(ls_free_pointer) float *features = ls_alloc_array(count, sizeof(*features));
    struct ls_image image = {0};
    if (!features) return ls_fail_memory("an example", count * sizeof(*features));
    ls_status status = ls_source_read(source, write->next, features, targets);
    if (!status) status = ls_picture_from_unit(features, &source->shape, &image);
    if (!status)
        status = write->format == LS_FORMAT_JPEG ? ls_jpeg_encode(&image, write->options.quality, bytes, size)
                                                 : ls_png_encode(&image, bytes, size);
    ls_free(image.pixels);
    return status;
}

ls_status ls_write_encode(const struct ls_write *write, uint8_t **bytes, size_t *size,
                          const struct ls_targets *targets) {
    const struct ls_source *source = write->dataset->source;
    char shape[128];
    int64_t index = write->next;
    const struct ls_source *own = ls_source_innermost(source, &index);
    if (write->copy) return own->ops->encoded(own, index, bytes, size, targets);
    if (ls_write_is_image(write)) return encode_next(write, bytes, size, targets);
    ls_shape_text(&source->shape, shape, sizeof(shape));
    return ls_fail(LS_UNIMPLEMENTED, "examples of shape %s are no images of 1 or 3 channels", shape);
}

static ls_status fill_options(const ls_write_options *options, ls_write_options *filled) {
    ls_write_options copy;
    ls_status status = ls_options_copy("ls_write_options", &copy, sizeof(copy), options);
    if (status) return status;
    if (copy.shards < 0 || copy.shards > MAX_SHARDS)
        return ls_fail(LS_INVALID_ARGUMENT, "shards is %d: it must be 1 to %d", copy.shards, MAX_SHARDS);
    if (copy.quality < 0 || copy.quality > 100)
        return ls_fail(LS_INVALID_ARGUMENT, "quality is %d: it must be 1 to 100", copy.quality);
    if (!copy.shards) copy.shards = 1;
    if (!copy.quality) copy.quality = DEFAULT_QUALITY;
    *filled = copy;
    return LS_OK;
}

static const struct ls_write_ops *find_ops(ls_file_format format) {
    if (format == LS_FORMAT_JPEG || format == LS_FORMAT_PNG) return &ls_write_folder;
    if (format == LS_FORMAT_TFRECORD) return &ls_write_records;
    return format == LS_FORMAT_NPY || format == LS_FORMAT_NPZ ? &ls_write_arrays : NULL;
}

/* ---- several files that are in a folder all together or not at all ---- */

/* Makes folder, unless it is there, and a hidden one in it: staging's path. */
static ls_status begin_staging(const char *folder, struct ls_whole_file_partial *staging) {
    LS_CLEANUP(ls_free_pointer) char *place = ls_reader_path_join(folder, "partial");
    ls_status status = place ? ls_files_folder_make(folder) : ls_fail_memory("a path", strlen(folder));
    return status ? status : ls_whole_file_partial_new(place, true, staging);
}

/* A file takes the place of one of its name; a folder that holds something stays as it is. */
static ls_status move_up(const char *folder, const char *staging, const char *name) {
    char from[4096], to[4096];
    (void)snprintf(from, sizeof(from), "%.3800s/%.255s", staging, name);
    (void)snprintf(to, sizeof(to), "%.3800s/%.255s", folder, name);
    if (!rename(from, to)) return LS_OK;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return ls_fail(LS_ALREADY_EXISTS, "'%s' has something in it: take another folder", to);
    return ls_fail_errno("write", to);
}

static int is_made(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static ls_status move_all(const char *folder, const struct ls_whole_file_partial *staging) {
    struct dirent **entries = NULL;
    int count = syncfs(staging->fd) ? -1 : scandir(staging->path, &entries, is_made, alphasort);
    if (count < 0) return ls_fail_errno("write", folder);
    ls_status status = LS_OK;
    for (int i = 0; i < count; i++) {
        if (!status) status = move_up(folder, staging->path, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status ? status : ls_whole_file_sync_folder(staging->path);
}

/* With LS_OK brings what is in it to the disk and moves it up: ALREADY_EXISTS where a folder of the same name holds
 * something. Else removes it. Returns status, or its own. */
static ls_status end_staging(const char *folder, struct ls_whole_file_partial *staging, ls_status status) {
    if (!status) status = move_all(folder, staging);
    ls_whole_file_partial_free(staging);
    return status;
}

/* ---- writing ---- */

/* All examples' files, or none. */
static ls_status write_whole(struct ls_write *write, const struct ls_write_ops *ops, const char *folder) {
    struct ls_whole_file_partial staging;
    ls_status status = begin_staging(folder, &staging);
    if (status) return status;
    write->folder = staging.path;
    status = ops->begin(write);
    for (; write->done < write->dataset->count && !status; write->done++, write->next++) status = ops->add(write);
    return end_staging(folder, &staging, ops->end ? ops->end(write, status) : status);
}

ls_status ls_dataset_write(const ls_dataset *dataset, ls_file_format format, const char *folder,
                           const ls_write_options *options) {
    LS_NEED(dataset, folder);
    const ls_dataset_options *opened = &dataset->options;
    const struct ls_write_ops *ops = find_ops(format);
    bool resized = opened->image_height || opened->image_width || opened->image_channels;
    struct ls_write write = {.dataset = dataset,
                             .format = format,
                             .next = opened->skip,
                             .split = ls_role_name(opened->part == LS_PART_VALIDATION ? LS_TEST : opened->split),
                             .copy = ls_source_innermost_ops(dataset->source)->encoded && !resized};
    if (!ops) return ls_fail(LS_INVALID_ARGUMENT, "format %d: there are 1 to %d", (int)format, LS_FORMAT_NPZ);
    if (dataset->source->unlabelled)
        return ls_fail(LS_INVALID_ARGUMENT, "the %s dataset has no labels, which all formats have",
                       dataset->source->kind);
    if (dataset->source->windows)
        return ls_fail(LS_UNIMPLEMENTED,
                       "the %s dataset's examples have a label for each position, which no format has",
                       dataset->source->kind);
    if (dataset->source->integers && ops != &ls_write_arrays)
        return ls_fail(LS_UNIMPLEMENTED, "the %s dataset's examples are integers: write them as NumPy's arrays",
                       dataset->source->kind);
    ls_status status = fill_options(options, &write.options);
    return status ? status : write_whole(&write, ops, folder);
}
