/* Bytes that are checked before they are read, and an object's messages, for the readers of HDF5's parts. The first
 * fault is kept in the file and ends every walk. Numbers read after it are 0. */
#pragma once
#include "weights/hdf5.h"

/* True if so many bytes lie there; otherwise it is a fault. */
bool ls_hdf5_inside(struct ls_hdf5 *file, uint64_t at, uint64_t size);
/* size bytes, little-endian. */
uint64_t ls_hdf5_number(struct ls_hdf5 *file, uint64_t at, int size);
/* True if these letters stand there; otherwise it is a fault. */
bool ls_hdf5_magic(struct ls_hdf5 *file, uint64_t at, const char *letters);
void ls_hdf5_fault(struct ls_hdf5 *file, ls_status status, uint64_t at, const char *what);
/* LS_OK, or the fault as an error. */
ls_status ls_hdf5_status(const struct ls_hdf5 *file);
/* False, and a fault, when the file has led in circles. */
bool ls_hdf5_step(struct ls_hdf5 *file, uint64_t at);

enum ls_hdf5_kind {
    LS_HDF5_DATASPACE = 0x01,
    LS_HDF5_LINK_INFO = 0x02,
    LS_HDF5_DATATYPE = 0x03,
    LS_HDF5_LAYOUT = 0x08,
    LS_HDF5_ATTRIBUTE = 0x0C,
    LS_HDF5_CONTINUATION = 0x10,
    LS_HDF5_SYMBOL_TABLE = 0x11
};
struct ls_hdf5_message {
    unsigned kind; /* enum ls_hdf5_kind, and others */
    uint64_t at, size;
};

#define LS_HDF5_BLOCKS 32 /* of messages an object may have beside its first one */
struct ls_hdf5_walk {
    struct ls_hdf5 *file;
    uint64_t at, end, left; /* left: messages */
    uint64_t blocks[LS_HDF5_BLOCKS][2];
    int count, next;
};
void ls_hdf5_walk_begin(struct ls_hdf5 *file, uint64_t object, struct ls_hdf5_walk *walk);
bool ls_hdf5_walk_next(struct ls_hdf5_walk *walk, struct ls_hdf5_message *message);
/* The object's first message of a kind; false: there is none. */
bool ls_hdf5_message(struct ls_hdf5 *file, uint64_t object, enum ls_hdf5_kind kind, struct ls_hdf5_message *message);
/* The extents that a dataspace message has. */
void ls_hdf5_shape(struct ls_hdf5 *file, uint64_t at, ls_shape *shape);

ls_status ls_hdf5_values_read(struct ls_hdf5 *file, uint64_t object, struct ls_hdf5_array *array);
/* The object's attribute of that name, one text or an array of them, behind what texts holds already. *present tells
 * whether there is one. */
ls_status ls_hdf5_values_attribute(struct ls_hdf5 *file, uint64_t object, const char *name, bool *present,
                                   struct ls_hdf5_texts *texts);
void ls_hdf5_values_free_texts(struct ls_hdf5_texts *texts);
