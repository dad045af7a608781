/* Element types: sizes and names. */
#pragma once
#include <lockstep/lockstep.h>

/* INVALID_ARGUMENT for a value that is no ls_dtype. */
ls_status ls_dtype_check(ls_dtype dtype);
