/* HDF5 files in memory, as far as h5py and Keras write them by default: superblock version 0 or 1, groups as symbol
 * tables, whole float32 arrays, attributes that are texts. Other parts of HDF5 (chunks, filters, the newer forms of
 * groups) are UNIMPLEMENTED. Damage is DATA_LOSS with the offset. No bytes lead outside of the file or in circles. Own
 * code, since libhdf5 of Debian 12 crashes on damaged files. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_hdf5 {
    const char *path;     /* for messages; borrowed */
    const uint8_t *bytes; /* borrowed */
    size_t size;
    uint64_t root;    /* the root group's object */
    uint64_t steps;   /* that may still be done in following links: what is left of a damaged file's circles */
    ls_status fault;  /* the first one found */
    const char *what; /* it is, */
    uint64_t at;      /* and where */
};
/* Begins to read. An object, a group or an array, is known by the offset of its header. */
ls_status ls_hdf5_open(const char *path, const uint8_t *bytes, size_t size, struct ls_hdf5 *file);

struct ls_hdf5_link {
    const char *name; /* borrowed from the bytes */
    uint64_t object;
};
struct ls_hdf5_links {
    struct ls_hdf5_link *links; /* owns; in the order of their names */
    size_t count, capacity;
};
/* The members of a group; nothing if the object is no group. */
ls_status ls_hdf5_list(struct ls_hdf5 *file, uint64_t object, struct ls_hdf5_links *links);
void ls_hdf5_links_free(struct ls_hdf5_links *links);
/* The link whose name is the first length bytes of name, or NULL. */
const struct ls_hdf5_link *ls_hdf5_link(const struct ls_hdf5_links *links, const char *name, size_t length);

struct ls_hdf5_array {
    bool present; /* false: the object is no array */
    ls_shape shape;
    const uint8_t *values; /* float32, little-endian, row by row, at any address; borrowed from the bytes */
    const char *unread;    /* NULL; or why values and shape are not there: "in chunks, as compressed ones are" */
};

struct ls_hdf5_texts {
    char **texts; /* own */
    size_t count, capacity;
};
