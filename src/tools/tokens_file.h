/* Files of tokens. Numbers in them are little-endian. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

struct ls_tokens_list {
    int32_t *ids; /* owns */
    size_t count, room;
};
enum ls_tokens_format {
    LS_TOKENS_FILE_TEXT,  /* numbers, of which white space ends one */
    LS_TOKENS_FILE_LLMC,  /* 256 int32 (magic, version, count), then the ids: uint16, or uint32 where they need it */
    LS_TOKENS_FILE_UINT16 /* nanoGPT's: the ids alone */
};
/* *format is that of name; NULL: the one of a file at path, by its ending. INVALID_ARGUMENT for a name that is none. */
ls_status ls_tokens_file_named(const char *name, const char *path, enum ls_tokens_format *format);
/* The format of bytes where none is named: llm.c's by its magic, else by path's ending. */
enum ls_tokens_format ls_tokens_file_format(const char *path, const char *bytes, size_t size);
/* Appends the ids of a file's bytes. DATA_LOSS with path and byte. */
ls_status ls_tokens_file_read(const char *path, const char *bytes, size_t size, enum ls_tokens_format format,
                              struct ls_tokens_list *tokens);
/* INVALID_ARGUMENT where the format cannot hold so many ids, or those of such a vocabulary. */
ls_status ls_tokens_file_check(enum ls_tokens_format format, size_t count, int64_t vocabulary);
/* After that check. Text becomes one line. */
void ls_tokens_file_put(const struct ls_tokens_list *tokens, enum ls_tokens_format format, int64_t vocabulary,
                        FILE *out);
ls_status ls_tokens_file_add(struct ls_tokens_list *tokens, const int32_t *ids, size_t count);
