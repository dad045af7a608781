/* .npy, NumPy's format of one array: a magic, a header in text, the elements. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/dataset.h"

struct ls_npy {
    char kind;             /* 'u', 'i', 'f' or 'b' as in NumPy's type strings */
    int item;              /* bytes an element: 1, 2, 4 or 8 */
    ls_shape shape;        /* rank 0 to LS_MAX_RANK, extents of 0 and more */
    int64_t count;         /* of elements */
    const uint8_t *values; /* borrowed from the bytes parsed */
    bool swapped;          /* big-endian */
    bool fortran;          /* the first index runs fastest */
};
/* Parses the whole contents of a file; name is for messages. DATA_LOSS for what is truncated or no .npy, naming the
 * offset; UNIMPLEMENTED for other types. */
ls_status ls_npy_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_npy *npy);
/* Elements first to first + count, row by row whatever the file's order, as float32, bytes divided by 255 if unit says
 * so; or one as an integer, of a float the one below it. */
void ls_npy_floats(const struct ls_npy *npy, int64_t first, int64_t count, bool unit, float *values);
int64_t ls_npy_integer(const struct ls_npy *npy, int64_t index);
/* The same elements of an array of bytes, as they are. */
void ls_npy_bytes(const struct ls_npy *npy, int64_t first, int64_t count, uint8_t *bytes);

#define LS_NPY_HEADER 256 /* bytes that ls_npy_header writes */
/* The header of an array of a type ("|u1", "<f4", "<i8"). */
void ls_npy_header(const char *type, const ls_shape *shape, char header[LS_NPY_HEADER]);
