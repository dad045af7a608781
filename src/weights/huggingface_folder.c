/* The files of the folder: which there are, one after another into one list, and anew. */
#include "weights/huggingface_folder.h"

#include <stdio.h>
#include <string.h>

#include "base/grow.h"
#include "base/new.h"
#include "base/read_file.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "data/files.h"
#include "data/reader.h"
#include "weights/arrays.h"
#include "weights/huggingface.h"
#include "weights/huggingface_layers.h"
#include "weights/huggingface_json.h"
#include "weights/read.h"

#define CONFIG  "config.json"
#define WEIGHTS "model.safetensors"
#define INDEX   WEIGHTS ".index.json"

enum { MOST = 1 << 26 }; /* bytes of a JSON file */

static ls_status path_of(const char *folder, const char *name, char **path) {
    *path = ls_reader_path_join(folder, name);
    return *path ? LS_OK : ls_fail_memory("a path", strlen(folder) + strlen(name) + 2);
}

static ls_status has_file(const char *folder, const char *name, bool *is) {
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    ls_status status = path_of(folder, name, &path);
    return status ? status : ls_file_is(path, LS_NAMES_FILES, is);
}

/* ---- from ---- */

static ls_status read_config(const char *folder, struct ls_huggingface_config *config) {
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size = 0;
    bool there = false;
    ls_status status = has_file(folder, CONFIG, &there);
    if (!status && !there)
        status = ls_fail(LS_NOT_FOUND, "folder '%s' has no " CONFIG ": it is no model of Hugging Face's", folder);
    if (!status) status = path_of(folder, CONFIG, &path);
    if (!status) status = ls_read_file_given(NULL, path, MOST, &text, &size);
    return status ? status : ls_huggingface_config_read(path, text, config);
}

static ls_status read_index(const char *folder, struct ls_names *files) {
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size = 0;
    ls_status status = path_of(folder, INDEX, &path);
    if (!status) status = ls_read_file_given(NULL, path, MOST, &text, &size);
    return status ? status : ls_huggingface_json_files(path, text, files);
}

/* One file is read though an index is there, as transformers does. */
static ls_status find_files(const char *folder, struct ls_names *files) {
    bool one = false, several = false;
    int64_t capacity = 0;
    ls_status status = has_file(folder, WEIGHTS, &one);
    if (!status) status = has_file(folder, INDEX, &several);
    if (status) return status;
    if (one) return ls_files_names_add(files, &capacity, ls_strdup(WEIGHTS));
    if (several) return read_index(folder, files);
    return ls_fail(LS_NOT_FOUND,
                   "folder '%s' has neither " WEIGHTS " nor " INDEX
                   ": write it with save_pretrained(safe_serialization=True)",
                   folder);
}

/* Takes what part holds. */
static ls_status append(struct ls_weights *weights, struct ls_weights *part) {
    ls_status status =
        LS_GROW(weights->items, weights->capacity, weights->count + part->count, 64, "a list of variables");
    if (!status) status = LS_GROW(weights->more, weights->more_capacity, weights->more_count + 1, 8, "a list of files");
    if (status) return status;
    memcpy(weights->items + weights->count, part->items, part->count * sizeof(*part->items));
    weights->count += part->count;
    part->count = 0;
    weights->more[weights->more_count++] = ls_steal(part->bytes);
    return LS_OK;
}

static ls_status read_part(const char *folder, const char *name, struct ls_weights *weights) {
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    LS_CLEANUP(ls_weights_free) struct ls_weights part = {0};
    ls_status status = path_of(folder, name, &path);
    if (!status) status = ls_weights_read(path, &part);
    return status ? status : append(weights, &part);
}

static ls_status read_parts(const char *folder, struct ls_weights *weights) {
    struct ls_names files = {0};
    ls_status status = find_files(folder, &files);
    for (int64_t i = 0; i < files.count && !status; i++) status = read_part(folder, files.names[i], weights);
    ls_files_names_free(&files);
    return status ? status : ls_weights_sort(folder, weights);
}

ls_status ls_huggingface_folder_read(const char *path, struct ls_weights *weights) {
    struct ls_huggingface_config config = {0};
    struct ls_weights read = {0};
    ls_status status = read_config(path, &config);
    if (!status) status = ls_huggingface_layers_to_about(path, &config, &read.about);
    if (!status) status = read_parts(path, &read);
    read.head = config.layers.tied ? LS_HEAD_TIED : LS_HEAD_OWN;
    return LS_HAND_OVER(status, weights, read, ls_weights_free(&read));
}

ls_status ls_huggingface_folder_about(const char *path, char **about) {
    struct ls_huggingface_config config;
    ls_status status = read_config(path, &config);
    return status ? status : ls_huggingface_layers_to_about(path, &config, about);
}

/* ---- to ---- */

static ls_status write_config(const char *folder, const char *text) {
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    struct ls_whole_file file;
    ls_status status = path_of(folder, CONFIG, &path);
    if (!status) status = ls_whole_file_open(path, &file);
    if (status) return status;
    if (fputs(text, file.out) < 0) status = ls_whole_file_fail(&file);
    return ls_whole_file_close(&file, status);
}

/* config.json comes last: a folder that has one is whole. */
ls_status ls_huggingface_folder_write(const char *from, const char *path, struct ls_weights *weights) {
    struct ls_huggingface_config config;
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    LS_CLEANUP(ls_free_pointer) char *file = NULL;
    ls_status status = ls_huggingface_layers_from_about(from, weights->about, &config);
    if (!status) status = ls_huggingface_config_write(from, &config, &text);
    if (!status) status = ls_huggingface_write(from, weights);
    if (!status) status = path_of(path, WEIGHTS, &file);
    if (!status) status = ls_files_folder_make(path);
    if (!status) status = ls_weights_arrays_write(file, weights);
    return status ? status : write_config(path, text);
}
