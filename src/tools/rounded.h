/* Numbers for people. */
#pragma once
#include <stdio.h>

/* As ls_json_put_number, rounded to so many digits, at most nine. */
void ls_rounded_put(FILE *stream, double value, int digits);
