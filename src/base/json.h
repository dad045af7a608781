/* What reports in JSON are written with. */
#pragma once
#include <stdio.h>

/* text in quotes, escaped. */
void ls_put_json(FILE *stream, const char *text);
