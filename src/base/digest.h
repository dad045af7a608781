/* SHA-256 through libcrypto. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_digest; /* a running digest */
ls_status ls_digest_new(struct ls_digest **digest);
void ls_digest_add(struct ls_digest *digest, const void *data, size_t size);
/* Writes 64 hex digits and a zero. The digest is used up; free it. */
ls_status ls_digest_hex(struct ls_digest *digest, char hex[65]);
void ls_digest_free(struct ls_digest *digest);
/* The digest of one piece. */
ls_status ls_digest_sha256(const void *data, size_t size, char hex[65]);
