/* The letters that stand for bytes in GPT-2's files (bytes_to_unicode of its encoder.py): a byte that is a visible
 * character of Latin-1 is that character, the others are U+0100 and those behind it, in their order. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_LETTERS = 256 + 68 };
/* The byte of each code point, -1 where it stands for none. */
struct ls_letters {
    int16_t bytes[LS_LETTERS];
};
void ls_letters_fill(struct ls_letters *letters);
/* Writes the bytes of size bytes of letters, and their number; output has room for size. Returns false where text has a
 * character that is no letter, or is empty. */
bool ls_letters_read(const struct ls_letters *letters, const char *text, size_t size, uint8_t *output, size_t *count);
