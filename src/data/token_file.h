/* Files of tokens: where the tokens lie in a file's bytes, and the file itself, mapped. */
#pragma once
#include <lockstep/lockstep.h>

/* The place of a file's tokens: count of them, little-endian, of width bytes each, from offset first on. */
struct ls_token_layout {
    size_t first;
    int width;     /* 1, 2 or 4; 0: characters, whose bytes differ */
    int64_t count; /* 1 or more; 0 for characters, which are counted when they are read */
};
/* The first bytes of llm.c's files: a magic and a version, int32, which tell the width of a token. */
enum { LS_TOKEN_HEADER = 256 * 4 };
struct ls_token_header {
    int64_t magic, version;
    int width;
};
/* The header of GPT-2's tokens, of 2 bytes, or of Llama 3's, of 4. */
const struct ls_token_header *ls_token_file_header(int width);
/* The one whose magic a file begins with; NULL: it has none. */
const struct ls_token_header *ls_token_file_find_header(const uint8_t *bytes, size_t size);
/* Reads the layout from a file's whole contents; name is for messages. DATA_LOSS names the offset of what is wrong. */
ls_status ls_token_file_parse(const char *name, ls_tokens format, const uint8_t *bytes, size_t size,
                              struct ls_token_layout *layout);
/* The index-th token, of a layout that has a width. */
int64_t ls_token_file_at(const struct ls_token_layout *layout, const uint8_t *bytes, int64_t index);

/* A file in the page cache, which all processes of the machine share. */
struct ls_token_file {
    char *path;           /* owns */
    int fd;               /* owns; with bytes */
    const uint8_t *bytes; /* owns: the mapping; NULL where none is open */
    size_t size;
    struct ls_token_layout layout;
};
ls_status ls_token_file_open(const char *path, ls_tokens format, struct ls_token_file *file);
/* DATA_LOSS where the file has become shorter: a look at bytes that it has lost would end the process. */
ls_status ls_token_file_check(const struct ls_token_file *file);
void ls_token_file_close(struct ls_token_file *file);
