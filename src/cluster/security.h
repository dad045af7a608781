/* What this worker proves itself with and checks others by, read once from the files that the settings name. */
#pragma once
#include "base/log.h"
#include "base/proof.h"
#include "base/settings.h"
#include "cluster/tf_config.h"

struct ls_security {
    char token[LS_SETTING_TEXT];
    size_t token_size;                   /* 0: there is none */
    char *certificate, *key, *authority; /* texts in PEM; NULL, all: no TLS */
};
/* name: of this task in certificates. INVALID_ARGUMENT naming the setting, the file and what to do. */
ls_status ls_security_read(const struct ls_settings *settings, const char *name, const struct ls_log *log,
                           struct ls_security *security);
bool ls_security_has_tls(const struct ls_security *security);
/* Forgets the secrets. */
void ls_security_release(struct ls_security *security);
/* The token; of size 0 where there is none. */
struct ls_secret ls_security_token(const struct ls_security *security);
/* One line where neither token nor TLS guards a cluster of several hosts. */
void ls_security_warn(const struct ls_security *security, const struct ls_tf_config *tf_config,
                      const struct ls_log *log);
