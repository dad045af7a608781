/* GPT-2's words: pieces of a text that are encoded one by one, as the regular expression of its encoder.py cuts them.
 */
#pragma once
#include "data/text/tokenizer.h"

struct ls_cutter;
ls_status ls_cutter_new(struct ls_cutter **cutter);
void ls_cutter_free(struct ls_cutter *cutter);

/* Called for each word in turn; an error ends the walk. */
typedef ls_status ls_word_fn(void *context, struct ls_token_bytes word);
/* Cuts a text of any bytes. The longest runs of UTF-8 are cut each by itself, and a run between them is one word. */
ls_status ls_cutter_walk(const struct ls_cutter *cutter, struct ls_token_bytes text, ls_word_fn *take, void *context);
