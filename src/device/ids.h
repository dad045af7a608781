/* Which numbers are ids of a table's rows: alike for the ops, and for who looks before they run. */
#pragma once
#include <lockstep/lockstep.h>

/* ids (rows, count). INVALID_ARGUMENT naming the first that is no whole number from 0 to below limit. */
ls_status ls_ids_check(const float *ids, int64_t rows, int64_t count, int64_t limit);
