/* Writing and reading one checkpoint. */
#include "checkpoint/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/new.h"
#include "base/shape.h"

#define DIGEST 64        /* hex digits of SHA-256 */
#define PIECE  (1 << 30) /* the most that one write takes */

/* ---- writing ---- */

struct output {
    int fd;
    struct ls_digest *digest;
};

static ls_status write_all(int fd, const void *data, size_t size) {
    for (const char *from = data; size;) {
        ssize_t written = write(fd, from, size < PIECE ? size : PIECE);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return ls_fail(ls_errno_status(errno), "%s", strerror(errno));
        from += written;
        size -= (size_t)written;
    }
    return LS_OK;
}

static ls_status put_bytes(const struct output *out, const void *data, size_t size) {
    ls_digest_add(out->digest, data, size);
    return write_all(out->fd, data, size);
}

static ls_status put_digest(const struct output *out) {
    char hex[DIGEST + 1];
    ls_status status = ls_digest_hex(out->digest, hex);
    return status ? status : write_all(out->fd, hex, DIGEST);
}

/* In the order in which the header placed them; the digest is the last. ls_safetensors_header may have placed the
 * tensors in another order than the caller named them. The digest covers the header and every byte of the tensors
 * before it. It lies in the file as a tensor of its own, so other readers of safetensors read the file all the same. */
static ls_status put_tensors(const struct output *out, const struct ls_checkpoint *checkpoint,
                             const struct ls_safetensors *file) {
    ls_status status = LS_OK;
    for (size_t i = 0; !status && i < file->tensor_count; i++) {
        const struct ls_safetensor *tensor = &file->tensors[i];
        if (!strcmp(tensor->name, LS_CHECKPOINT_DIGEST)) break;
        size_t at = 0;
        while (strcmp(checkpoint->tensors[at].name, tensor->name) != 0) at++;
        status = put_bytes(out, checkpoint->tensors[at].data, tensor->end - tensor->begin);
    }
    return status ? status : put_digest(out);
}

static ls_status make_header(const struct ls_checkpoint *checkpoint, struct ls_safetensors *file, char **header) {
    struct ls_manifest_texts texts;
    ls_manifest_write(&checkpoint->manifest, &texts);
    file->texts = texts.texts;
    file->text_count = texts.count;
    for (size_t i = 0; i < checkpoint->count; i++)
        file->tensors[file->tensor_count++] = (struct ls_safetensor){
            .name = checkpoint->tensors[i].name, .type = "F32", .shape = checkpoint->tensors[i].shape};
    file->tensors[file->tensor_count++] =
        (struct ls_safetensor){.name = LS_CHECKPOINT_DIGEST, .type = "U8", .shape = LS_SHAPE(DIGEST)};
    return ls_safetensors_header(file, header);
}

ls_status ls_checkpoint_file_put(const struct ls_checkpoint *checkpoint, int fd) {
    LS_CLEANUP(ls_free_pointer) char *header = NULL;
    LS_CLEANUP(ls_free_pointer)
    struct ls_safetensor *tensors = ls_alloc_array(checkpoint->count + 1, sizeof(*tensors));
    struct ls_safetensors file = {.tensors = tensors};
    struct output out = {.fd = fd};
    if (!tensors) return ls_fail_memory("a checkpoint's header", checkpoint->count * sizeof(*tensors));
    ls_status status = make_header(checkpoint, &file, &header);
    if (!status) status = ls_digest_new(&out.digest);
    if (!status) status = put_bytes(&out, header, file.data);
    if (!status) status = put_tensors(&out, checkpoint, &file);
    ls_digest_free(out.digest);
    return status;
}

/* ---- reading ---- */

static ls_status check_digest(const uint8_t *bytes, size_t size) {
    char hex[DIGEST + 1];
    ls_status status = ls_digest_sha256(bytes, size - DIGEST, hex);
    if (status || !memcmp(bytes + size - DIGEST, hex, DIGEST)) return status;
    return ls_fail(LS_DATA_LOSS, "its bytes are not those of its SHA-256");
}

static ls_status check_last(const struct ls_safetensors *file) {
    const struct ls_safetensor *last = file->tensor_count ? &file->tensors[file->tensor_count - 1] : NULL;
    if (last && !strcmp(last->name, LS_CHECKPOINT_DIGEST) && last->end - last->begin == DIGEST) return LS_OK;
    return ls_fail(LS_DATA_LOSS, "its last tensor is not %s", LS_CHECKPOINT_DIGEST);
}

ls_status ls_checkpoint_file_load(uint8_t *bytes, size_t size, struct ls_loaded *loaded) {
    struct ls_loaded made = {.bytes = bytes};
    ls_status status = ls_safetensors_parse(bytes, size, &made.file);
    if (!status) status = check_last(&made.file);
    if (!status) status = check_digest(bytes, size);
    if (!status) status = ls_manifest_check(&made.file);
    return LS_HAND_OVER(status, loaded, made, ls_checkpoint_file_free_loaded(&made));
}

void ls_checkpoint_file_free_loaded(struct ls_loaded *loaded) {
    ls_safetensors_free(&loaded->file);
    ls_free(loaded->bytes);
    *loaded = (struct ls_loaded){0};
}

ls_status ls_checkpoint_file_find(const struct ls_loaded *loaded, const char *name, const ls_shape *shape,
                                  const void **data) {
    char text[200];
    const struct ls_safetensor *tensor = ls_safetensors_find(&loaded->file, name);
    if (!tensor) return ls_fail(LS_INVALID_ARGUMENT, "it has no tensor '%s'", name);
    if (tensor->unread || strcmp(tensor->type, "F32") != 0 || !ls_shape_equal(&tensor->shape, shape)) {
        ls_shape_text(&tensor->shape, text, sizeof(text));
        return ls_fail(LS_INVALID_ARGUMENT, "its tensor '%s' is %s %s", name, tensor->type, text);
    }
    *data = loaded->bytes + loaded->file.data + tensor->begin;
    return LS_OK;
}
