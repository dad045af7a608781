/* Arguments of public functions that may not be NULL. */
#pragma once
#include <lockstep/lockstep.h>

/* True if all of names, "strategy, values", are there. Otherwise this thread's error names the function and the first
 * missing one. there has one entry a name. */
bool ls_need(const char *function, const char *names, const bool *there);

/* Ends the public function with INVALID_ARGUMENT, or with value, if one of the pointers is NULL. */
#define LS_NEED(...) LS_NEED_OR(LS_INVALID_ARGUMENT, __VA_ARGS__)
#define LS_NEED_OR(value, ...)                                                                                         \
    do {                                                                                                               \
        if (!ls_need(__func__, #__VA_ARGS__, (const bool[]){__VA_ARGS__})) return value;                               \
    } while (0)
