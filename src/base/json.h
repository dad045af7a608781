/* Text as strings of JSON. */
#pragma once
#include <stdarg.h>
#include <stdio.h>

/* Writes text in quotes and escaped. A byte that is no UTF-8 becomes U+FFFD. */
void ls_json_put(FILE *stream, const char *text);
/* A number for people, rounded to so many digits: at most nine, as "%.9g" writes them. */
double ls_json_rounded(double value, int digits);
/* Writes format, in which ' stands for ". %s is a text as ls_json_put writes it, or null, %-s one as it is; %i is true
 * or false; a %f or %g that is not finite is null. %d, %lld, %llu and %zu are those of printf. */
__attribute__((format(printf, 2, 3))) void ls_json_print(FILE *stream, const char *format, ...);
void ls_json_print_list(FILE *stream, const char *format, va_list *arguments);
