/* The characters of a text as tokens: the code points of UTF-8, numbered in their order, as nanoGPT's prepare.py for
 * characters does. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/memory.h"

enum { LS_CHARACTER_TEXT = 5, LS_CHARACTERS_ASCII = 128 };
struct ls_characters {
    int32_t *points;                  /* owns: [vocabulary], rising */
    char (*texts)[LS_CHARACTER_TEXT]; /* owns: [vocabulary] in UTF-8 */
    int vocabulary;
    int32_t ascii[LS_CHARACTERS_ASCII]; /* their ids, which most texts look for */
    int64_t count;                      /* of the text */
    int64_t *starts;                    /* owns: the offsets of every so many characters */
};
/* Counts and numbers the characters of a text; name is for messages. DATA_LOSS names the offset of bytes that are no
 * UTF-8. */
ls_status ls_characters_read(const char *name, const uint8_t *bytes, size_t size, struct ls_characters *characters);
/* The ids of count characters of the same text, from the first-th on. Returns false where the text is another one now:
 * its characters end before. */
bool ls_characters_ids(const struct ls_characters *characters, const struct ls_bytes *text, int64_t first,
                       int64_t count, int32_t *ids);
void ls_characters_free(struct ls_characters *characters);
