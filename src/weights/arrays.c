/* .npz and .safetensors, from and to. */
#include "weights/arrays.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/half.h"
#include "base/shape.h"
#include "base/memory.h"
#include "base/read_file.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "checkpoint/safetensors.h"
#include "data/npy.h"
#include "data/zip.h"
#include "weights/weights.h"

#define OPTIMIZER         "optimizer/" /* begins the names of a checkpoint's moments */
#define OWN               "lockstep."  /* of its digest and its callbacks' states */
#define CHECKPOINT_DIGEST OWN "sha256"
#define DIGEST            "data_sha256" /* in the metadata of weights: 64 hex digits */
#define ABOUT             "about"       /* in that of weights and checkpoints */
#define ABOUT_MEMBER      "about.npy"   /* of an archive: NumPy's array of one text of bytes */

static size_t bytes_of_weight(const struct ls_weight *weight) {
    return (size_t)ls_shape_count(&weight->shape) * sizeof(float);
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && !strcmp(text + length - wanted, end);
}

/* ---- from ---- */

static ls_status take_about(const char *path, const char *text, size_t size, struct ls_weights *weights) {
    weights->about = ls_alloc(size + 1);
    if (!weights->about) return ls_fail_memory(path, size);
    memcpy(weights->about, text, size);
    return LS_OK;
}

static ls_status add_about(const char *path, struct ls_weights *weights) {
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = NULL;
    size_t size = 0;
    ls_status status = ls_zip_read(&(struct ls_zip){path, weights->bytes, weights->size}, ABOUT_MEMBER, &bytes, &size);
    size_t header = status || size < 10 ? 0 : 10 + (size_t)(bytes[8] | bytes[9] << 8);
    if (status || weights->about || !header || header > size) return status;
    return take_about(path, (const char *)bytes + header, size - header, weights);
}

/* Floats of any size and order become float32, row by row. */
static ls_status take_array(const char *member, const struct ls_npy *npy, struct ls_weight *item) {
    bool plain = npy->item == sizeof(float) && !npy->swapped && !npy->fortran;
    item->shape = npy->shape;
    item->values = npy->values;
    if (npy->kind != 'f') {
        (void)snprintf(item->unread, sizeof(item->unread), "of type %c%d", npy->kind, npy->item);
        item->values = NULL;
    } else if (!plain) {
        float *floats = ls_alloc_array((size_t)npy->count + 1, sizeof(*floats));
        if (!floats) return ls_fail_memory(member, (size_t)npy->count * sizeof(*floats));
        ls_npy_floats(npy, 0, npy->count, false, floats);
        ls_free(item->own);
        item->values = item->own = (uint8_t *)floats;
    }
    return LS_OK;
}

/* A member that is packed or made as none is that is read here. */
static ls_status leave_unread(struct ls_weight *item) {
    ls_free(item->own);
    *item = (struct ls_weight){.unread = "of an unknown kind"};
    return LS_OK;
}

/* The array "dense/kernel.npy" is the variable "dense/kernel". */
static ls_status add_member(const char *path, struct ls_weights *weights, const char *member) {
    struct ls_weight item = {0};
    struct ls_npy npy;
    size_t size = 0;
    LS_CLEANUP(ls_free_pointer) char *name = ls_strdup(member);
    if (!name) return ls_fail_memory("a variable's name", strlen(member));
    ls_status status = ls_zip_read(&(struct ls_zip){path, weights->bytes, weights->size}, member, &item.own, &size);
    if (!status) status = ls_npy_parse(member, item.own, size, &npy);
    if (!status) status = take_array(member, &npy, &item);
    if (status == LS_UNIMPLEMENTED) status = leave_unread(&item);
    if (status) {
        ls_free(item.own);
        return status;
    }
    if (ends_with(name, ".npy")) name[strlen(name) - 4] = 0;
    item.name = name;
    return ls_weights_add(weights, &item);
}

ls_status ls_weights_arrays_from_npz(const char *path, struct ls_weights *weights) {
    LS_CLEANUP(ls_files_names_free) struct ls_names members = {0};
    ls_status status = ls_zip_list(&(struct ls_zip){path, weights->bytes, weights->size}, &members);
    for (int64_t i = 0; !status && i < members.count; i++) {
        const char *name = members.names[i];
        status = strcmp(name, ABOUT_MEMBER) ? add_member(path, weights, name) : add_about(path, weights);
    }
    return status;
}

static float read_f16(const uint8_t *at) {
    return ls_half_to_float((uint16_t)(at[0] | at[1] << 8));
}

static float read_bf16(const uint8_t *at) {
    return ls_half_bfloat16_to_float((uint16_t)(at[0] | at[1] << 8));
}

static float read_f64(const uint8_t *at) {
    double value;
    memcpy(&value, at, sizeof(value));
    return (float)value;
}

/* Other floats become float32. */
static ls_status take_tensor(const char *path, const struct ls_safetensor *tensor, const uint8_t *bytes,
                             struct ls_weight *item) {
    static const struct {
        const char *type;
        size_t size;
        float (*read)(const uint8_t *at);
    } known[] = {{"F16", 2, read_f16}, {"BF16", 2, read_bf16}, {"F64", 8, read_f64}};
    if (tensor->extents > LS_MAX_RANK) {
        (void)snprintf(item->unread, sizeof(item->unread), "of %d axes", tensor->extents);
        return LS_OK;
    }
    if (!strcmp(tensor->type, "F32")) item->values = bytes;
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
        if (strcmp(tensor->type, known[k].type) != 0) continue;
        size_t count = (tensor->end - tensor->begin) / known[k].size;
        float *floats = ls_alloc_array(count + 1, sizeof(*floats));
        if (!floats) return ls_fail_memory(path, count * sizeof(*floats));
        for (size_t i = 0; i < count; i++) floats[i] = known[k].read(bytes + i * known[k].size);
        item->values = item->own = (uint8_t *)floats;
    }
    if (!item->values) (void)snprintf(item->unread, sizeof(item->unread), "of type %.40s", tensor->type);
    return LS_OK;
}

static ls_status add_tensors(const char *path, const struct ls_safetensors *file, struct ls_weights *weights) {
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < file->tensor_count; i++) {
        const struct ls_safetensor *tensor = &file->tensors[i];
        if (!strncmp(tensor->name, OPTIMIZER, strlen(OPTIMIZER)) || !strncmp(tensor->name, OWN, strlen(OWN))) continue;
        struct ls_weight item = {.name = (char *)(uintptr_t)tensor->name, .shape = tensor->shape};
        status = take_tensor(path, tensor, weights->bytes + file->data + tensor->begin, &item);
        if (!status) status = ls_weights_add(weights, &item);
    }
    return status;
}

static ls_status compare_digest(const char *path, const void *bytes, size_t size, const char *wanted) {
    char digest[65];
    ls_status status = ls_digest_sha256(bytes, size, digest);
    if (status || !strncmp(digest, wanted, 64)) return status;
    return ls_fail(LS_DATA_LOSS, "'%s' is damaged: the SHA-256 of its data is %.12s..., and it says %.12s...", path,
                   digest, wanted);
}

/* A file of Lockstep says its digest: weights have the digest of the data, a checkpoint has the digest of all bytes
 * before it. */
static ls_status check_digest(const char *path, const struct ls_safetensors *file, const struct ls_weights *weights) {
    const char *text = ls_safetensors_text(file, DIGEST);
    const struct ls_safetensor *last = ls_safetensors_find(file, CHECKPOINT_DIGEST);
    if (text) return compare_digest(path, weights->bytes + file->data, file->size, text);
    if (!last || last->end - last->begin != 64) return LS_OK;
    size_t before = file->data + last->begin;
    return compare_digest(path, weights->bytes, before, (const char *)weights->bytes + before);
}

ls_status ls_weights_arrays_from_safetensors(const char *path, struct ls_weights *weights) {
    struct ls_safetensors file;
    ls_status status = ls_safetensors_parse(weights->bytes, weights->size, &file);
    if (status) return ls_fail_context(status, "'%s'", path);
    status = check_digest(path, &file, weights);
    const char *about = ls_safetensors_text(&file, ABOUT);
    if (!status && about) status = take_about(path, about, strlen(about), weights);
    if (!status) status = add_tensors(path, &file, weights);
    ls_safetensors_free(&file);
    return status;
}

/* Of a file of size bytes, whose header ends at the end-th. */
static ls_status read_header(int fd, const char *path, size_t end, size_t size, char **about) {
    struct ls_safetensors file;
    LS_CLEANUP(ls_free_pointer) uint8_t *bytes = ls_alloc(end);
    if (!bytes) return ls_fail_memory(path, end);
    ls_status status = ls_read_file_at(fd, path, 0, bytes, end);
    if (status) return status;
    status = ls_safetensors_parse(bytes, size, &file);
    if (status) return ls_fail_context(status, "'%s'", path);
    const char *text = ls_safetensors_text(&file, ABOUT);
    *about = text ? ls_strdup(text) : NULL;
    ls_safetensors_free(&file);
    return text && !*about ? ls_fail_memory(path, 1) : LS_OK;
}

ls_status ls_weights_arrays_about(const char *path, bool *header, char **about) {
    struct stat info;
    uint8_t start[9];
    uint64_t length = 0;
    LS_CLEANUP(ls_read_file_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) return ls_read_file_fail("open", path);
    size_t size = info.st_size > 0 ? (size_t)info.st_size : 0;
    if (size < sizeof(start)) return LS_OK;
    ls_status status = ls_read_file_at(fd, path, 0, start, sizeof(start));
    for (int i = 0; i < 8; i++) length |= (uint64_t)start[i] << 8 * i;
    if (status || start[8] != '{' || length > LS_SAFETENSORS_HEADER || length > size - 8) return status;
    *header = true;
    return read_header(fd, path, 8 + (size_t)length, size, about);
}

/* ---- to ---- */

static bool write_tensors(FILE *out, const char *header, const struct ls_safetensors *file,
                          const struct ls_weights *weights) {
    bool good = fwrite(header, 1, file->data, out) == file->data;
    for (size_t i = 0; good && i < file->tensor_count; i++) {
        const struct ls_weight *weight = ls_weights_find(weights, file->tensors[i].name);
        size_t size = bytes_of_weight(weight);
        good = !size || fwrite(weight->values, 1, size, out) == size;
    }
    return good;
}

/* Of the tensors' bytes in their order in the file. */
static ls_status digest_tensors(const struct ls_safetensors *file, const struct ls_weights *weights, char hex[65]) {
    struct ls_digest *digest;
    ls_status status = ls_digest_new(&digest);
    if (status) return status;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct ls_weight *weight = ls_weights_find(weights, file->tensors[i].name);
        ls_digest_add(digest, weight->values, bytes_of_weight(weight));
    }
    status = ls_digest_hex(digest, hex);
    ls_digest_free(digest);
    return status;
}

static ls_status write_safetensors(const char *path, const struct ls_weights *weights) {
    LS_CLEANUP(ls_free_pointer)
    struct ls_safetensor *tensors = ls_alloc_array(weights->count, sizeof(*tensors));
    LS_CLEANUP(ls_free_pointer) char *header = NULL;
    char digest[65] = "";
    struct ls_safetensors_text texts[] = {
        {"format", weights->format ? weights->format : "np"}, {DIGEST, digest}, {ABOUT, weights->about}};
    struct ls_safetensors file = {
        .tensors = tensors, .tensor_count = weights->count, .texts = texts, .text_count = weights->about ? 3 : 2};
    if (!tensors) return ls_fail_memory("a list of tensors", weights->count * sizeof(*tensors));
    for (size_t i = 0; i < weights->count; i++)
        tensors[i] =
            (struct ls_safetensor){.name = weights->items[i].name, .type = "F32", .shape = weights->items[i].shape};
    ls_status status = ls_safetensors_header(&file, &header); /* puts them in order */
    if (!status) status = digest_tensors(&file, weights, digest);
    free(ls_steal(header));
    if (!status) status = ls_safetensors_header(&file, &header);
    if (status) return status;
    struct ls_whole_file whole;
    status = ls_whole_file_open(path, &whole);
    if (status) return status;
    if (!write_tensors(whole.out, header, &file, weights)) status = ls_whole_file_fail(&whole);
    return ls_whole_file_close(&whole, status);
}

struct array {
    char header[LS_NPY_HEADER];
    char name[600];
};

static ls_status write_npz(const char *path, const struct ls_weights *weights) {
    size_t count = weights->count;
    LS_CLEANUP(ls_free_pointer) struct array *arrays = ls_alloc_array(count, sizeof(*arrays));
    LS_CLEANUP(ls_free_pointer) struct ls_zip_file *files = ls_alloc_array(count + 1, sizeof(*files));
    if (!arrays || !files) return ls_fail_memory("a list of arrays", count * sizeof(*arrays));
    for (size_t i = 0; i < count; i++) {
        const struct ls_weight *weight = &weights->items[i];
        int length = snprintf(arrays[i].name, sizeof(arrays[i].name), "%s.npy", weight->name);
        if (length >= (int)sizeof(arrays[i].name))
            return ls_fail(LS_UNIMPLEMENTED, "the name '%.80s...' is too long", weight->name);
        ls_npy_header("<f4", &weight->shape, arrays[i].header);
        files[i] = (struct ls_zip_file){
            arrays[i].name, {arrays[i].header, weight->values}, {LS_NPY_HEADER, bytes_of_weight(weight)}};
    }
    char about[LS_NPY_HEADER], type[32];
    (void)snprintf(type, sizeof(type), "|S%zu", weights->about ? strlen(weights->about) : 0);
    ls_npy_header(type, &(ls_shape){0}, about);
    if (weights->about)
        files[count++] =
            (struct ls_zip_file){ABOUT_MEMBER, {about, weights->about}, {LS_NPY_HEADER, strlen(weights->about)}};
    return ls_zip_write(path, files, count);
}

/* The writer for a path's ending, or NULL. */
static ls_status (*find_writer(const char *path))(const char *path, const struct ls_weights *weights) {
    if (ends_with(path, ".safetensors")) return write_safetensors;
    return ends_with(path, ".npz") ? write_npz : NULL;
}

ls_status ls_weights_arrays_check_path(const char *path) {
    if (find_writer(path)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "'%s' ends in neither .safetensors nor .npz: these are written", path);
}

ls_status ls_weights_arrays_write(const char *path, const struct ls_weights *weights) {
    ls_status status = ls_weights_arrays_check_path(path);
    for (size_t i = 0; !status && i < weights->count; i++)
        if (weights->items[i].unread[0])
            status = ls_fail(LS_UNIMPLEMENTED, "'%.200s' is %s: floats of at most %d axes are read",
                             weights->items[i].name, weights->items[i].unread, LS_MAX_RANK);
    return status ? status : find_writer(path)(path, weights);
}
