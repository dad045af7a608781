/* SHA-256 through libcrypto's EVP interface; the only file that includes it for digests. */
#include "base/digest.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/status.h"

struct ls_digest {
    EVP_MD_CTX *context;
    bool failed;
};

ls_status ls_digest_new(struct ls_digest **digest) {
    struct ls_digest *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a digest", sizeof(*made));
    made->context = EVP_MD_CTX_new();
    made->failed = !made->context || !EVP_DigestInit_ex(made->context, EVP_sha256(), NULL);
    *digest = made;
    return LS_OK;
}

void ls_digest_add(struct ls_digest *digest, const void *data, size_t size) {
    if (!digest->failed) digest->failed = !EVP_DigestUpdate(digest->context, data, size);
}

ls_status ls_digest_hex(struct ls_digest *digest, char hex[65]) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (digest->failed || !EVP_DigestFinal_ex(digest->context, bytes, &size) || size != 32)
        return ls_fail(LS_INTERNAL, "libcrypto could not compute SHA-256");
    for (unsigned i = 0; i < size; i++) (void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    return LS_OK;
}

void ls_digest_free(struct ls_digest *digest) {
    if (!digest) return;
    EVP_MD_CTX_free(digest->context);
    ls_free(digest);
}

ls_status ls_digest_sha256(const void *data, size_t size, char hex[65]) {
    struct ls_digest *digest = NULL;
    ls_status status = ls_digest_new(&digest);
    if (status) return status;
    ls_digest_add(digest, data, size);
    status = ls_digest_hex(digest, hex);
    ls_digest_free(digest);
    return status;
}
