/* The terminal of standard output. */
#pragma once
#include <stdbool.h>

/* True if the locale has UTF-8, as setlocale would find it. */
bool ls_terminal_is_utf8(void);
/* The size; 0 and 0 where standard output is no terminal, or has none. */
void ls_terminal_size(int *columns, int *lines);
