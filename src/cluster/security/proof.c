/* libcrypto does all of it: the HMAC, the comparison in constant time, and the erasure. */
#include "cluster/security/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/status.h"

ls_status ls_proof_make(struct ls_secret secret, const void *data, size_t size, uint8_t proof[LS_PROOF_SIZE]) {
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (secret.size > INT32_MAX || !HMAC(EVP_sha256(), secret.data, (int)secret.size, data, size, bytes, &length) ||
        length != LS_PROOF_SIZE)
        return ls_fail(LS_INTERNAL, "libcrypto could not compute an HMAC");
    for (unsigned i = 0; i < LS_PROOF_SIZE; i++) proof[i] = bytes[i];
    return LS_OK;
}

bool ls_proof_equal(const void *a, const void *b, size_t size) {
    return CRYPTO_memcmp(a, b, size) == 0;
}

void ls_proof_forget(void *memory, size_t size) {
    OPENSSL_cleanse(memory, size);
}
