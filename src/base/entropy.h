/* Random bytes that nobody can foresee, from libcrypto: for nonces, keys and names. */
#pragma once
#include <lockstep/lockstep.h>

/* Fills size bytes of memory; INTERNAL where libcrypto has none. */
ls_status ls_entropy_fill(void *memory, size_t size);
