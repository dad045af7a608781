/* X.509 certificates through libcrypto: checking those of tasks, and making a small authority for people who have none.
 * All are texts in PEM. */
#pragma once
#include <lockstep/lockstep.h>

/* Whether the first certificate of chain is valid now, signed by one of authority (the rest of chain may stand between)
 * and made out to the DNS name. UNAUTHENTICATED in words that go on from "the certificate": "has expired". */
ls_status ls_certificate_verify(const char *chain, const char *authority, const char *name);
/* Whether key is that of the first certificate. INVALID_ARGUMENT in words that go on from "the certificate". */
ls_status ls_certificate_check_key(const char *chain, const char *key);

struct ls_certificate_pair {
    char *certificate, *key; /* freed with ls_certificate_release */
};
void ls_certificate_release(struct ls_certificate_pair *pair);
/* A certificate that signs others; valid from now on for days. */
ls_status ls_certificate_make_authority(const char *name, int days, struct ls_certificate_pair *pair);
/* One for a DNS name, for both ends of a connection, signed by authority. Days below 0: it has expired already. */
ls_status ls_certificate_issue(const struct ls_certificate_pair *authority, const char *name, int days,
                               struct ls_certificate_pair *pair);
