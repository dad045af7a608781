/* UTF-8 in bytes of which none need be a zero. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { LS_CODE_POINTS = 0x110000 };

/* The bytes of the character at text, of which size bytes, at least one, are there; 0: there is none. */
size_t ls_utf8_character(const uint8_t *text, size_t size);
/* The code point of a character of so many bytes. */
uint32_t ls_utf8_code(const uint8_t *text, size_t size);
/* Writes a code point as UTF-8, and returns the number of its bytes. */
size_t ls_utf8_put(uint32_t code, uint8_t bytes[4]);
