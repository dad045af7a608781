/* X.509 certificates through libcrypto: the check of a task's certificate, and a small authority for people who have
 * none. All are texts in PEM. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_CERTIFICATE_NAME 96

/* The DNS name of a task in certificates, such as "worker-1.lockstep". So nobody can be another task than the one that
 * its certificate was made for. */
void ls_certificate_name(const char *task_type, int task_index, char name[LS_CERTIFICATE_NAME]);
/* Checks that the first certificate of chain is valid now, that a path of signatures leads from it over the rest of
 * chain to one of authority (RFC 5280, section 6), and that it is made out to the DNS name (NULL: any). UNAUTHENTICATED
 * in words that go on from "the certificate": "has expired". */
ls_status ls_certificate_verify(const char *chain, const char *authority, const char *name);
/* Checks that key belongs to the first certificate. INVALID_ARGUMENT in words that go on from "the certificate". */
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
