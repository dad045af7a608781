/* The means by which this worker proves itself and checks others, read once from the files that the settings name. */
#pragma once
#include "base/log.h"
#include "cluster/security/proof.h"
#include "base/settings.h"
#include "cluster/security/tls.h"

struct ls_credentials {
    char token[LS_SETTING_TEXT];
    size_t token_size;                   /* 0: there is none */
    char *certificate, *key, *authority; /* texts in PEM; NULL, all: no TLS */
    struct ls_tls_identity *identity;    /* made of them */
};
/* name: of this task in certificates. INVALID_ARGUMENT naming the setting, the file and what to do. */
ls_status ls_credentials_read(const struct ls_settings *settings, const char *name, const struct ls_log *log,
                              struct ls_credentials *security);
/* Without the token; name NULL: of nobody in particular, who only asks. */
ls_status ls_credentials_read_tls(const struct ls_settings *settings, const char *name, const struct ls_log *log,
                                  struct ls_credentials *security);
bool ls_credentials_has_tls(const struct ls_credentials *security);
/* Forgets the secrets. */
void ls_credentials_release(struct ls_credentials *security);
/* The token; of size 0 where there is none. */
struct ls_secret ls_credentials_token(const struct ls_credentials *security);
/* LS_OK where there is no TLS, or where the certificate of the other end is that of the task. Else the error has words
 * that go on from "its certificate". */
ls_status ls_credentials_check(const struct ls_credentials *security, const char *certificate, const char *task_type,
                               int task_index);
