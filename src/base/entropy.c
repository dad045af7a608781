/* libcrypto seeds its generator from the kernel. */
#include "base/random.h"

#include <openssl/rand.h>

#include "base/status.h"

ls_status ls_entropy_fill(void *memory, size_t size) {
    if (size > INT32_MAX || RAND_bytes(memory, (int)size) != 1)
        return ls_fail(LS_INTERNAL, "libcrypto has no random numbers");
    return LS_OK;
}
