/* A text that a tokenizer encodes, and gives back to the byte. */
#pragma once
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/text/gpt2.h"

/* Ends the program where it is another text, or has more tokens than bytes, or one that is none. */
static inline void turn(const ls_tokenizer *tokenizer, const void *text, size_t size) {
    int32_t *ids = NULL;
    char *back = NULL;
    size_t count = 0, length = 0;
    if (ls_tokenizer_encode(tokenizer, text, size, &ids, &count) || count > size) abort();
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= ls_tokenizer_vocabulary(tokenizer)) abort();
    if (ls_tokenizer_decode(tokenizer, ids, count, &back, &length)) abort();
    if (length != size || memcmp(back, text, size) != 0) abort();
    ls_free(ids);
    ls_free(back);
}
