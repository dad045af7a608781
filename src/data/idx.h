/* IDX, the format of MNIST's files: two zero bytes, element type, rank, big-endian extents, elements row by row. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_IDX_MAX_RANK 4

struct ls_idx {
    int rank;
    int64_t dims[LS_IDX_MAX_RANK];
    int64_t count;         /* elements: the product of dims, at least 1 */
    const uint8_t *values; /* borrowed from the bytes parsed */
};
/* Parses the whole contents of a file; name is for messages. Elements are unsigned bytes, dims are 1 or more. DATA_LOSS
 * for what is truncated, too long or no IDX file, naming the offset; UNIMPLEMENTED for other element types. */
ls_status ls_idx_parse(const char *name, const uint8_t *bytes, size_t size, struct ls_idx *idx);
/* Reads a file, gzipped or not. *bytes owns what idx borrows; freed with ls_free. */
ls_status ls_idx_read(const char *path, uint8_t **bytes, struct ls_idx *idx);
