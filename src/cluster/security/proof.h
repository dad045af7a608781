/* A proof shows that its maker knows a secret, and does not show the secret: HMAC-SHA256 (RFC 2104) through libcrypto.
 * The Hellos prove the token with it, and data connections prove their key (docs/security.md, "A token"). */
#pragma once
#include <lockstep/lockstep.h>

#define LS_PROOF_SIZE 32 /* bytes */

struct ls_secret { /* the bytes are borrowed */
    const void *data;
    size_t size;
};
/* Makes the proof of size bytes of data. Nobody can make it without the secret. */
ls_status ls_proof_make(struct ls_secret secret, const void *data, size_t size, uint8_t proof[LS_PROOF_SIZE]);
/* Takes the same time wherever the first difference is, so that a proof cannot be guessed byte by byte. */
bool ls_proof_equal(const void *a, const void *b, size_t size);
/* Overwrites memory that has held a secret, also where a compiler sees no later use. */
void ls_proof_forget(void *memory, size_t size);
