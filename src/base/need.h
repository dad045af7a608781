/* Arguments of public functions that may not be NULL. */
#pragma once
#include <lockstep/lockstep.h>

/* True if all of names, "strategy, values", are there. Otherwise this thread's error names the function and the first
 * missing one. there has one entry a name. */
bool ls_need(const char *function, const char *names, const bool *there);
static inline bool ls_all_there(const bool *there, size_t count) {
    bool all = true;
    for (size_t i = 0; i < count; i++) all &= there[i];
    return all;
}

/* Ends the public function with INVALID_ARGUMENT, or with value, if one of the pointers is NULL. */
#define LS_NEED(...) LS_NEED_OR(LS_INVALID_ARGUMENT, __VA_ARGS__)
#define LS_NEED_OR(value, ...)                                                                                         \
    do {                                                                                                               \
        const bool there_[] = {__VA_ARGS__}; /* names are looked at where one is missing */                            \
        if (!ls_all_there(there_, sizeof(there_)) && !ls_need(__func__, #__VA_ARGS__, there_)) return value;           \
    } while (0)
