/* Text as strings of JSON. */
#pragma once
#include <stdio.h>

/* Writes text in quotes and escaped. A byte that is no UTF-8 becomes U+FFFD. */
void ls_json_put(FILE *stream, const char *text);
/* Writes a finite number with nine digits. */
void ls_json_put_number(FILE *stream, double value);
/* The same with all digits: it is read back to its bits. */
void ls_json_put_exact(FILE *stream, double value);
