/* The safetensors format: eight bytes with the length of the header (little-endian), the header (a JSON object: for
 * each tensor its type, shape and place, and under "__metadata__" texts by name), then the tensors' bytes,
 * little-endian and row-major, without holes. Pure: from and to memory, no files. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_SAFETENSORS_HEADER 100000000 /* bytes that a header may have, as in the format's own reader */

struct ls_safetensor {
    const char *name;
    const char *type;  /* "F32", "U8", ... */
    ls_shape shape;    /* () where unread says so of the extents */
    size_t begin, end; /* in the data */
    bool unread;       /* its type is not known here, or it has more extents than a shape has: only its place is */
    int extents;       /* of those that are read from a file */
};
struct ls_safetensors_text {
    const char *name, *value;
};
struct ls_safetensors {
    struct ls_safetensor *tensors;
    size_t tensor_count;
    struct ls_safetensors_text *texts; /* the metadata */
    size_t text_count;
    size_t data, size; /* where the data begins in the file, and its bytes */
    void *tree;        /* of a parsed file: owns the names and types */
};

/* The file's first bytes, up to the data. Puts the tensors in the format's order (larger elements first, then by name)
 * and fills in begin, end, data and size. The caller frees *header with ls_free. INVALID_ARGUMENT for an unknown type,
 * a tensor that is unread, or a name that occurs twice. */
ls_status ls_safetensors_header(struct ls_safetensors *file, char **header);
/* Reads the header of a whole file in memory. Tensors come in the order of their bytes. DATA_LOSS tells why the bytes
 * are no such file. The texts live until ls_safetensors_free, and do not point into bytes. */
ls_status ls_safetensors_parse(const uint8_t *bytes, size_t size, struct ls_safetensors *file);
/* Frees the result of parse. */
void ls_safetensors_free(struct ls_safetensors *file);
/* NULL if there is none of that name. */
const struct ls_safetensor *ls_safetensors_find(const struct ls_safetensors *file, const char *name);
const char *ls_safetensors_text(const struct ls_safetensors *file, const char *name);
