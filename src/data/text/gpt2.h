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
/* Reads encoder.json into table, end_of_text and bytes. */
ls_status ls_gpt2_vocabulary_read(const char *path, struct ls_gpt2 *gpt2);
/* Reads vocab.bpe into merges. vocabulary is the path of what was read before. */
ls_status ls_gpt2_merges_read(const char *path, const char *vocabulary, struct ls_gpt2 *gpt2);
