/* Proofs that a secret is known, without showing it: HMAC-SHA256 through libcrypto. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_PROOF_SIZE 32 /* bytes */

struct ls_secret { /* what is behind it is borrowed */
    const void *data;
    size_t size;
};
/* What only who knows the secret can make out of text. */
ls_status ls_proof_make(struct ls_secret secret, const void *data, size_t size, uint8_t proof[LS_PROOF_SIZE]);
/* In constant time, so that a proof cannot be guessed byte by byte. */
bool ls_proof_equal(const void *a, const void *b, size_t size);
/* Overwrites memory that has held a secret, also where a compiler sees no later use. */
void ls_proof_forget(void *memory, size_t size);
ls_status ls_proof_random(void *memory, size_t size);
