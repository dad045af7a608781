/* Files in memory: gzipped or plain, deflate's data, checksums, and paths. */
#pragma once
#include <lockstep/lockstep.h>

/* A whole file, unpacked where gzip has packed it. *bytes is freed with ls_free. NOT_FOUND when there is none. */
ls_status ls_reader_all(const char *path, uint8_t **bytes, size_t *size);
/* Its first bytes, most of them or as many as there are. */
ls_status ls_reader_begin(const char *path, size_t most, uint8_t **bytes, size_t *size);

/* Unpacks bare deflate data of which exactly length bytes come; false when they do not. */
bool ls_reader_inflate(const uint8_t *packed, size_t size, uint8_t *output, size_t length);
/* True if these are the first two bytes of zlib's format (RFC 1950). */
bool ls_reader_is_zlib(const uint8_t bytes[2]);
/* Unpacks all of it: *output is freed with ls_free. DATA_LOSS naming path when it is damaged or truncated. */
ls_status ls_reader_inflate_zlib(const char *path, const uint8_t *packed, size_t size, uint8_t **output,
                                 size_t *length);
/* CRC-32 as in ZIP and gzip, which goes on from the one of the bytes before; 0: there are none. */
uint32_t ls_reader_crc32(uint32_t before, const void *bytes, size_t size);

/* "folder/name", freed with ls_free; NULL when there is no memory. */
char *ls_reader_path_join(const char *folder, const char *name);
/* NOT_FOUND unless folder is one; INVALID_ARGUMENT for NULL or "". */
ls_status ls_reader_folder_check(const char *folder);
