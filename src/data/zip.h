/* ZIP archives in memory, as numpy.savez writes them: finding and unpacking a file by its name, and writing. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

#include "data/files.h"

struct ls_zip {
    const char *path; /* for messages */
    const uint8_t *bytes;
    size_t size;
};
/* Unpacks one file of an archive: *output is freed with ls_free. NOT_FOUND when it
 * holds no file of that name; DATA_LOSS naming the offset for what is damaged; UNIMPLEMENTED for other methods than
 * stored and deflate, and encryption. ZIP64 is read. */
ls_status ls_zip_read(const struct ls_zip *archive, const char *name, uint8_t **output, size_t *length);

/* The names of all files of an archive, in its order. */
ls_status ls_zip_list(const struct ls_zip *archive, struct ls_names *names);
/* A file to be written: two parts, one after the other. Borrowed. */
struct ls_zip_file {
    const char *name;
    const void *parts[2];
    size_t sizes[2];
};
/* Writes an archive, whole or not at all, of files that are stored as they are; UNIMPLEMENTED for 4 GiB or 65536 files
 * and more. */
ls_status ls_zip_write(const char *path, const struct ls_zip_file *files, size_t count);
