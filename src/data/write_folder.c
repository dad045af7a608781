/* Images in a folder each class: folder/SPLIT/CLASS/000001.jpg, numbered from 1 in the order of the dataset. */
#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"
#include "data/files.h"
#include "data/image.h"
#include "data/sources.h"
#include "data/dataset.h"
#include "data/write.h"

#define PATH_SIZE 4096

/* folder/SPLIT, or folder/SPLIT/CLASS for label 0 and more. */
static ls_status format_folder(const struct ls_write *write, int label, char path[PATH_SIZE]) {
    const char *name = ls_source_class_name(write->dataset->source, label);
    int length;
    if (label < 0)
        length = snprintf(path, PATH_SIZE, "%s/%s", write->folder, write->split);
    else if (name)
        length = snprintf(path, PATH_SIZE, "%s/%s/%s", write->folder, write->split, name);
    else
        length = snprintf(path, PATH_SIZE, "%s/%s/%05d", write->folder, write->split, label);
    return length < PATH_SIZE ? LS_OK
                              : ls_fail(LS_INVALID_ARGUMENT, "the path of folder '%s' is too long", write->folder);
}

static ls_status check_target_kind(const struct ls_target_kind *kind) {
    if (!kind->numbers && !kind->weighted) return LS_OK;
    return ls_fail(LS_UNIMPLEMENTED, "%s have no place in a folder each class: write npz or tfrecord",
                   kind->numbers ? "targets that are numbers" : "sample weights");
}

static ls_status begin_folder(struct ls_write *write) {
    char path[PATH_SIZE];
    ls_status status = check_target_kind(&write->dataset->source->targets);
    for (int label = -1; label < write->dataset->source->classes && !status; label++) {
        status = format_folder(write, label, path);
        if (!status) status = ls_files_folder_make(path);
    }
    return status;
}

static ls_status add_to_folder(struct ls_write *write) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    char folder[PATH_SIZE], path[PATH_SIZE + 64];
    size_t size;
    int32_t label;
    ls_status status = ls_write_encode(write, &bytes, &size, LS_LABELS(&label));
    if (!status) status = format_folder(write, label, folder);
    if (status) return status;
    (void)snprintf(path, sizeof(path), "%s/%06lld.%s", folder, (long long)write->done + 1,
                   ls_png_is(bytes, size) ? "png" : "jpg");
    return ls_file_write(path, bytes, size);
}

const struct ls_write_ops ls_write_folder = {begin_folder, add_to_folder, NULL};
