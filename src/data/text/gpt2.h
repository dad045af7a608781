/* GPT-2's tokenizer in memory, as its two files make it. */
#pragma once
#include "data/text/cutter.h"
#include "data/text/merges.h"
#include "data/text/tokenizer.h"

struct ls_gpt2 {
    ls_tokenizer tokenizer;
    struct ls_cutter *cutter; /* owns */
    struct ls_merges merges;
    int32_t bytes[256]; /* the id of each byte alone */
    bool special;       /* LS_END_OF_TEXT in a text is a token */
};
/* A file's content, which a zero follows. */
struct ls_gpt2_file {
    const char *path; /* for messages */
    const char *text;
    size_t size;
};
ls_status ls_gpt2_make(const struct ls_gpt2_file *merges, const struct ls_gpt2_file *vocabulary, bool special,
                       ls_tokenizer **tokenizer);
/* Reads encoder.json into table, end_of_text and bytes. */
ls_status ls_gpt2_vocabulary_parse(const struct ls_gpt2_file *file, struct ls_gpt2 *gpt2);
/* Reads vocab.bpe into merges. vocabulary is the path of what was read before. */
ls_status ls_gpt2_merges_parse(const struct ls_gpt2_file *file, const char *vocabulary, struct ls_gpt2 *gpt2);
