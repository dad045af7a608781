/* Text as strings of JSON. */
#pragma once
#include <stdio.h>

/* Writes text in quotes and escaped. A byte that is no UTF-8 becomes U+FFFD. */
void ls_json_put(FILE *stream, const char *text);
/* Writes a finite number with nine digits. */
void ls_json_put_number(FILE *stream, double value);
/* The same for people: rounded to so many digits, at most nine. */
void ls_json_put_rounded(FILE *stream, double value, int digits);
/* Writes BEFORE"NAME": and the text, or null where that is NULL. */
void ls_json_put_member(FILE *stream, const char *before, const char *name, const char *text);
