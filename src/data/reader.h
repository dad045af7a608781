/* Reads a file, gzipped or plain, into memory as far as its parser asks. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_reader;
/* NOT_FOUND when there is no such file. path is borrowed. */
ls_status ls_reader_open(const char *path, struct ls_reader **reader);
/* Reads on until want bytes are in memory or the file ends. Memory grows with what the file holds, not with want. */
ls_status ls_reader_fill(struct ls_reader *reader, uint64_t want);
/* The bytes in memory, borrowed until the next fill. */
const uint8_t *ls_reader_bytes(const struct ls_reader *reader);
size_t ls_reader_size(const struct ls_reader *reader);
/* Hands the bytes over; they are freed with ls_free. The reader holds nothing afterwards. */
uint8_t *ls_reader_take(struct ls_reader *reader);
/* A whole file. *bytes is freed with ls_free. */
ls_status ls_reader_all(const char *path, uint8_t **bytes, size_t *size);
void ls_reader_free(struct ls_reader *reader);

/* Unpacks bare deflate data of which exactly length bytes come; false when they do not. */
bool ls_reader_inflate(const uint8_t *packed, size_t size, uint8_t *output, size_t length);
/* True if these are the first two bytes of zlib's format (RFC 1950). */
bool ls_reader_is_zlib(const uint8_t bytes[2]);
/* Unpacks all of it: *output is freed with ls_free. DATA_LOSS naming path when it is damaged or truncated. */
ls_status ls_reader_inflate_zlib(const char *path, const uint8_t *packed, size_t size, uint8_t **output,
                                 size_t *length);
/* CRC-32 as in ZIP and gzip; more continues one. */
uint32_t ls_reader_crc32(const void *bytes, size_t size);
uint32_t ls_reader_crc32_more(uint32_t crc, const void *bytes, size_t size);

/* "folder/name", freed with ls_free; NULL when there is no memory. */
char *ls_reader_path_join(const char *folder, const char *name);
/* NOT_FOUND unless folder is one; INVALID_ARGUMENT for NULL or "". */
ls_status ls_reader_folder_check(const char *folder);
