/* Text as strings of JSON. */
#pragma once
#include <stdio.h>

/* Writes text, which is UTF-8, in quotes and escaped. */
void ls_json_put(FILE *stream, const char *text);
/* Writes a finite number with nine digits. */
void ls_json_put_number(FILE *stream, double value);
/* The same with all digits: it is read back to its bits. */
void ls_json_put_exact(FILE *stream, double value);
/* As ls_json_put for any bytes: a byte that is no printable ASCII becomes the character of that number. */
void ls_json_put_ascii(FILE *stream, const char *text);
