/* Random numbers as a pure function of (seed, stream, index): Philox4x32-10 (Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", 2011). No state, so that every replica, layout and restart draws the same numbers. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdint.h>

#include "base/philox.h"

/* A standard normal (Box-Muller). */
double ls_random_normal(uint64_t seed, uint64_t stream, uint64_t index);
/* A stream number from a text (FNV-1a), for streams with names. */
uint64_t ls_random_stream(const char *name);
/* Fills order[count] with a permutation of 0 .. count - 1 (Fisher-Yates, unbiased). */
void ls_random_permutation(uint64_t seed, uint64_t stream, int64_t count, int64_t *order);

/* Random bytes that nobody can foresee, from libcrypto: for nonces, keys and names. */

/* Fills size bytes of memory; INTERNAL where libcrypto has none. */
ls_status ls_entropy_fill(void *memory, size_t size);
