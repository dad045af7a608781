/* The facts of a source of tokens. */
#pragma once
#include "data/dataset.h"

struct ls_tokens_facts {
    const char *format; /* "bytes" */
    int64_t tokens, stride;
    int vocabulary, characters; /* characters: those that occur; 0 in other formats */
};
/* False for a source of another kind. */
bool ls_tokens_facts(const struct ls_source *source, struct ls_tokens_facts *facts);
