/* Reading the token and what TLS needs. It is a text: what is around it (the line's end, spaces) is no part of it. */
#include "cluster/security/credentials.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cluster/security/certificate.h"
#include "base/memory.h"
#include "base/read_file.h"
#include "base/status.h"
#include "base/plain.h"

#define TOKEN_MIN    16        /* bytes: shorter ones can be guessed from one proof */
#define PEM_MAX      (1 << 20) /* bytes */
#define TOKEN_ADVICE "make one with: openssl rand -hex 32"

static ls_status take_token(struct ls_credentials *security, const char *text, const char *where) {
    while (ls_plain_is_space(*text)) text++;
    size_t size = strlen(text);
    while (size && ls_plain_is_space(text[size - 1])) size--;
    if (size < TOKEN_MIN)
        return ls_fail(LS_INVALID_ARGUMENT, "%s holds a token of %zu bytes, and %d are the least; " TOKEN_ADVICE, where,
                       size, TOKEN_MIN);
    memcpy(security->token, text, size);
    security->token_size = size;
    return LS_OK;
}

static void warn_readable(const char *setting, const char *path, const struct ls_log *log) {
    struct stat status;
    if (!stat(path, &status) && status.st_mode & S_IROTH)
        ls_log_warning(log, "everybody on this host can read %s='%s': chmod 600 it", setting, path);
}

static ls_status read_token_file(struct ls_credentials *security, const char *path, const struct ls_log *log) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    char where[LS_SETTING_TEXT + 32];
    size_t size;
    ls_status status = ls_read_file_given("LOCKSTEP_TOKEN_FILE", path, LS_SETTING_TEXT, &text, &size);
    if (status) return status;
    warn_readable("LOCKSTEP_TOKEN_FILE", path, log);
    (void)snprintf(where, sizeof(where), "LOCKSTEP_TOKEN_FILE='%s'", path);
    if (size == LS_SETTING_TEXT)
        status = ls_fail(LS_INVALID_ARGUMENT, "%s holds more than the %d bytes of a token; " TOKEN_ADVICE, where,
                         LS_SETTING_TEXT - 1);
    else if (strlen(text) != size)
        status = ls_fail(LS_INVALID_ARGUMENT, "%s holds a zero byte, and a token is text; " TOKEN_ADVICE, where);
    else
        status = take_token(security, text, where);
    ls_proof_forget(text, size);
    return status;
}

static ls_status read_token(const struct ls_settings *settings, const struct ls_log *log,
                            struct ls_credentials *security) {
    if (*settings->token && *settings->token_file)
        return ls_fail(LS_INVALID_ARGUMENT, "both LOCKSTEP_TOKEN and LOCKSTEP_TOKEN_FILE are set: unset one of them");
    if (*settings->token) return take_token(security, settings->token, "LOCKSTEP_TOKEN");
    return *settings->token_file ? read_token_file(security, settings->token_file, log) : LS_OK;
}

/* ---- TLS ---- */

/* Of the secret ones a log hears that everybody can read them. */
static ls_status read_pem(const char *setting, const char *path, const struct ls_log *log, char **text) {
    size_t size;
    ls_status status = ls_read_file_given(setting, path, PEM_MAX + 1, text, &size);
    if (status) return status;
    if (log) warn_readable(setting, path, log);
    if (size && size <= PEM_MAX) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "%s='%s' is empty or has more than %d bytes", setting, path, PEM_MAX);
}

/* A worker that all others would refuse says so itself, first. */
static ls_status check_own(const struct ls_settings *settings, const char *name,
                           const struct ls_credentials *security) {
    char why[LS_ERROR_SIZE / 2];
    ls_status status = ls_certificate_check_key(security->certificate, security->key);
    if (!status) status = ls_certificate_verify(security->certificate, security->authority, name);
    if (!status) return LS_OK;
    (void)snprintf(why, sizeof(why), "%s", ls_error());
    return ls_fail(LS_INVALID_ARGUMENT,
                   "the certificate of LOCKSTEP_TLS_CERTIFICATE='%s' %s (with LOCKSTEP_TLS_KEY='%s' and "
                   "LOCKSTEP_TLS_CA='%s'%s%s)",
                   settings->tls_certificate, why, settings->tls_key, settings->tls_ca, name ? "; this task is " : "",
                   name ? name : "");
}

static ls_status check_settings(const struct ls_settings *settings) {
    const char *missing = !*settings->tls_certificate ? "LOCKSTEP_TLS_CERTIFICATE"
                          : !*settings->tls_key       ? "LOCKSTEP_TLS_KEY"
                          : !*settings->tls_ca        ? "LOCKSTEP_TLS_CA"
                                                      : NULL;
    if (missing)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s is not set: TLS takes all of LOCKSTEP_TLS_CERTIFICATE, "
                       "LOCKSTEP_TLS_KEY and LOCKSTEP_TLS_CA (lockstep certs makes them)",
                       missing);
    return LS_OK;
}

ls_status ls_credentials_read_tls(const struct ls_settings *settings, const char *name, const struct ls_log *log,
                                  struct ls_credentials *security) {
    if (!*settings->tls_certificate && !*settings->tls_key && !*settings->tls_ca) return LS_OK;
    ls_status status = check_settings(settings);
    if (!status) status = read_pem("LOCKSTEP_TLS_CERTIFICATE", settings->tls_certificate, NULL, &security->certificate);
    if (!status) status = read_pem("LOCKSTEP_TLS_KEY", settings->tls_key, log, &security->key);
    if (!status) status = read_pem("LOCKSTEP_TLS_CA", settings->tls_ca, NULL, &security->authority);
    if (!status) status = check_own(settings, name, security);
    if (status) return status;
    return ls_tls_identity_new(security->certificate, security->key, security->authority, &security->identity);
}

ls_status ls_credentials_read(const struct ls_settings *settings, const char *name, const struct ls_log *log,
                              struct ls_credentials *security) {
    *security = (struct ls_credentials){.token_size = 0};
    ls_status status = read_token(settings, log, security);
    return status ? status : ls_credentials_read_tls(settings, name, log, security);
}

bool ls_credentials_has_tls(const struct ls_credentials *security) {
    return security->certificate != NULL;
}

void ls_credentials_release(struct ls_credentials *security) {
    ls_proof_forget(security->token, sizeof(security->token));
    if (security->key) ls_proof_forget(security->key, strlen(security->key));
    ls_tls_identity_free(security->identity);
    ls_free(security->certificate);
    ls_free(security->key);
    ls_free(security->authority);
    *security = (struct ls_credentials){.token_size = 0};
}

struct ls_secret ls_credentials_token(const struct ls_credentials *security) {
    return (struct ls_secret){security->token, security->token_size};
}

ls_status ls_credentials_check(const struct ls_credentials *security, const char *certificate, const char *task_type,
                               int task_index) {
    char name[LS_CERTIFICATE_NAME];
    if (!ls_credentials_has_tls(security)) return LS_OK;
    if (!certificate) return ls_fail(LS_UNAUTHENTICATED, "is missing");
    ls_certificate_name(task_type, task_index, name);
    return ls_certificate_verify(certificate, security->authority, name);
}
