/* A connection for each POST: they are seconds apart. */
#include "base/http_post.h"

#include <openssl/err.h>
#include <openssl/http.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"

enum { MOST_ANSWER = 1 << 16 };

struct target {
    char *host, *port, *path;
    int tls;
    SSL_CTX *context; /* with TLS */
};

/* What OpenSSL noted first is the cause. */
static ls_status fail_post(const char *url) {
    const char *data = "", *reason;
    int flags = 0;
    unsigned long code = ERR_get_error_all(NULL, NULL, NULL, &data, &flags);
    if (!(reason = code ? ERR_reason_error_string(code) : NULL)) reason = "no connection";
    bool more = (flags & ERR_TXT_STRING) && *data;
    ls_status status =
        ls_fail(LS_UNAVAILABLE, "POST %.300s: %s%s%.200s", url, reason, more ? ": " : "", more ? data : "");
    ERR_clear_error();
    return status;
}

/* Makes path what the server is asked for: with the query, which OpenSSL takes apart. */
static ls_status append_query(struct target *target, const char *query) {
    size_t size = strlen(target->path) + strlen(query) + 2;
    char *whole = OPENSSL_malloc(size);
    if (!whole) return ls_fail_memory("a URL", size);
    (void)snprintf(whole, size, "%s?%s", target->path, query);
    OPENSSL_free(target->path);
    target->path = whole;
    return LS_OK;
}

static ls_status parse_url(const char *url, struct target *target) {
    char *query = NULL;
    bool parsed = OSSL_HTTP_parse_url(url, &target->tls, NULL, &target->host, &target->port, NULL, &target->path,
                                      &query, NULL) == 1;
    ERR_clear_error();
    ls_status status = parsed ? LS_OK : ls_fail(LS_INVALID_ARGUMENT, "'%.300s' is no URL of http or https", url);
    if (!status && query && *query) status = append_query(target, query);
    OPENSSL_free(query);
    return status;
}

static void release_target(struct target *target) {
    OPENSSL_free(target->host);
    OPENSSL_free(target->port);
    OPENSSL_free(target->path);
    SSL_CTX_free(target->context);
}

ls_status ls_http_post_check(const char *url) {
    LS_CLEANUP(release_target) struct target target = {0};
    return parse_url(url, &target);
}

/* The server's certificate must be of the authority, and made out to the host. */
static ls_status prepare_tls(const struct ls_http_post *post, struct target *target) {
    target->context = SSL_CTX_new(TLS_client_method());
    if (!target->context) return fail_post(post->url);
    SSL_CTX_set_verify(target->context, SSL_VERIFY_PEER, NULL);
    int known = post->authority ? SSL_CTX_load_verify_file(target->context, post->authority)
                                : SSL_CTX_set_default_verify_paths(target->context);
    if (known == 1) return LS_OK;
    ERR_clear_error();
    return ls_fail(LS_UNAVAILABLE, "POST %.300s: '%.300s' has no certificates", post->url,
                   post->authority ? post->authority : "the system");
}

static bool begin_tls(SSL *ssl, const struct target *target) {
    X509_VERIFY_PARAM *names = SSL_get0_param(ssl);
    bool address = X509_VERIFY_PARAM_set1_ip_asc(names, target->host) == 1;
    if (!address && (SSL_set1_host(ssl, target->host) != 1 || SSL_set_tlsext_host_name(ssl, target->host) != 1))
        return false;
    SSL_set_connect_state(ssl);
    return true;
}

/* OSSL_HTTP_bio_cb_t: puts TLS before the connection, and takes it away. */
static BIO *wrap_tls(BIO *bio, void *argument, int connect, int detail) {
    const struct target *target = argument;
    (void)detail;
    if (!target->context) return bio;
    if (!connect) {
        BIO *below = BIO_pop(bio);
        (void)BIO_free(bio);
        return below;
    }
    SSL *ssl = SSL_new(target->context);
    BIO *tls = BIO_new(BIO_f_ssl());
    if (ssl && tls && begin_tls(ssl, target)) {
        (void)BIO_set_ssl(tls, ssl, BIO_CLOSE);
        return BIO_push(tls, bio);
    }
    SSL_free(ssl);
    (void)BIO_free(tls);
    return NULL;
}

static ls_status transfer(const struct ls_http_post *post, struct target *target) {
    STACK_OF(CONF_VALUE) *headers = NULL;
    char bearer[8192];
    (void)snprintf(bearer, sizeof(bearer), "Bearer %s", post->token ? post->token : "");
    BIO *body = BIO_new_mem_buf(post->body, -1), *answer = NULL;
    bool ready = body && (!post->token || X509V3_add_value("Authorization", bearer, &headers));
    ERR_clear_error();
    if (ready)
        answer = OSSL_HTTP_transfer(NULL, target->host, target->port, target->path, target->tls, NULL, NULL, NULL, NULL,
                                    wrap_tls, target, 0, headers, post->type, body, NULL, 0, MOST_ANSWER,
                                    (int)(LS_POST_TIMEOUT / LS_SECOND), 0);
    ls_status status = answer ? LS_OK : fail_post(post->url);
    (void)BIO_free(answer);
    (void)BIO_free(body);
    sk_CONF_VALUE_pop_free(headers, X509V3_conf_free);
    return status;
}

ls_status ls_http_post_send(const struct ls_http_post *post) {
    LS_CLEANUP(release_target) struct target target = {0};
    ls_status status = parse_url(post->url, &target);
    if (!status && target.tls) status = prepare_tls(post, &target);
    return status ? status : transfer(post, &target);
}
