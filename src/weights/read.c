/* A file's kind. */
#include "weights/read.h"

#include <string.h>

#include "base/new.h"
#include "data/files.h"
#include "data/zip.h"
#include "weights/arrays.h"
#include "weights/huggingface_folder.h"

#define KERAS_MEMBER "model.weights.h5" /* of a .keras file */

/* A .keras file is an archive: its weights take the place of the whole. */
static ls_status open_keras(const char *path, struct ls_weights *weights) {
    uint8_t *member = NULL;
    size_t size = 0;
    ls_status status = ls_zip_read(&(struct ls_zip){path, weights->bytes, weights->size}, KERAS_MEMBER, &member, &size);
    if (status == LS_NOT_FOUND) return ls_weights_arrays_from_npz(path, weights);
    if (status) return status;
    ls_free(weights->bytes);
    weights->bytes = member;
    weights->size = size;
    return ls_weights_keras_from_hdf5(path, weights);
}

static ls_status parse(const char *path, struct ls_weights *weights) {
    const uint8_t *bytes = weights->bytes;
    if (weights->size >= 4 && !memcmp(bytes, "\x89HDF", 4)) return ls_weights_keras_from_hdf5(path, weights);
    if (weights->size >= 4 && !memcmp(bytes, "PK\x03\x04", 4)) return open_keras(path, weights);
    if (weights->size >= 9 && bytes[8] == '{') return ls_weights_arrays_from_safetensors(path, weights);
    return ls_fail(LS_INVALID_ARGUMENT, "'%s' is no file of weights: .safetensors, .npz, .h5 and .keras are read",
                   path);
}

ls_status ls_weights_read_bytes(const char *path, uint8_t *bytes, size_t size, struct ls_weights *weights) {
    struct ls_weights read = {.bytes = bytes, .size = size};
    ls_status status = parse(path, &read);
    if (!status) status = ls_weights_sort(path, &read);
    return LS_HAND_OVER(status, weights, read, ls_weights_free(&read));
}

ls_status ls_weights_read(const char *path, struct ls_weights *weights) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    bool folder = false;
    ls_status status = ls_file_is(path, LS_NAMES_FOLDERS, &folder);
    if (!status && folder) return ls_huggingface_folder_read(path, weights);
    if (!status) status = ls_file_read(path, &bytes, &size);
    return status ? status : ls_weights_read_bytes(path, bytes, size, weights);
}

ls_status ls_weights_read_about(const char *path, char **about) {
    bool header = false, folder = false;
    ls_status status = ls_file_is(path, LS_NAMES_FOLDERS, &folder);
    if (!status && folder) return ls_huggingface_folder_about(path, about);
    if (!status) status = ls_weights_arrays_about(path, &header, about);
    if (status || header) return status;
    LS_CLEANUP(ls_weights_free) struct ls_weights weights = {0};
    status = ls_weights_read(path, &weights);
    if (!status) *about = ls_steal(weights.about);
    return status;
}
