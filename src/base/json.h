/* What reports in JSON are written with. */
#pragma once
#include <stdio.h>

/* text, which is UTF-8, in quotes, escaped. */
void ls_put_json(FILE *stream, const char *text);
/* The same for any bytes: what is not printable ASCII becomes the character of that number. */
void ls_put_json_ascii(FILE *stream, const char *text);
