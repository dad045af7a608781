/* TFRecord files: records of a length, its checksum, the bytes and their checksum. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_record_file;
/* Opens a file, gzipped or plain, and finds the places of its records. Of a plain one it reads only the lengths.
 * DATA_LOSS names the offset at which they end wrongly. With tolerant a damaged file keeps the records before the
 * damage, and *broken tells the damage. It is freed with ls_free, and NULL without damage. */
ls_status ls_record_file_open(const char *path, bool tolerant, struct ls_record_file **file, char **broken);
/* From now on each reading opens a plain file anew, and refuses one that was written meanwhile: a folder may have more
 * files than a process may have open. */
void ls_record_file_close(struct ls_record_file *file);
void ls_record_file_free(struct ls_record_file *file);
int64_t ls_record_file_count(const struct ls_record_file *file);
/* Reads a record, any thread: *bytes is freed with ls_free. DATA_LOSS naming file, record and offset. */
ls_status ls_record_file_read(const struct ls_record_file *file, int64_t index, uint8_t **bytes, size_t *size);
/* "record 7 at offset 1234 of '/data/a.tfrecord'", for messages about what a record holds. */
void ls_record_file_name(const struct ls_record_file *file, int64_t index, char *text, size_t size);
