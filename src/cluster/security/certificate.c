/* The name of a task stands in the extension subjectAltName, as a DNS name (RFC 5280, section 4.2.1.6). The subject's
 * common name is for people and proves nothing (RFC 9525). Keys are on the curve P-256. */
#include "cluster/security/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cluster/security/proof.h"
#include "base/status.h"

#define SERIAL_BITS 127
#define EARLIER     3600 /* seconds that clocks may differ */

LS_CLEANER(free_certificate, X509 *, X509_free);
LS_CLEANER(free_key, EVP_PKEY *, EVP_PKEY_free);
LS_CLEANER(free_bio, BIO *, (void)BIO_free);
LS_CLEANER(free_store, X509_STORE *, X509_STORE_free);
LS_CLEANER(free_context, X509_STORE_CTX *, X509_STORE_CTX_free);
static void free_stack(STACK_OF(X509) * *stack) {
    sk_X509_pop_free(*stack, X509_free);
}

void ls_certificate_name(const char *task_type, int task_index, char name[LS_CERTIFICATE_NAME]) {
    (void)snprintf(name, LS_CERTIFICATE_NAME, "%s-%d.lockstep", task_type, task_index);
}

static ls_status fail_crypto(const char *what) {
    return ls_fail(LS_INTERNAL, "libcrypto could not %s", what);
}

/* ---- reading ---- */

/* Returns the first certificate of the text; NULL: there is none. */
static X509 *read_first(const char *pem) {
    LS_CLEANUP(free_bio) BIO *bio = BIO_new_mem_buf(pem, -1);
    return bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
}

static STACK_OF(X509) * read_all(const char *pem) {
    LS_CLEANUP(free_bio) BIO *bio = BIO_new_mem_buf(pem, -1);
    STACK_OF(X509) *all = sk_X509_new_null();
    for (X509 *one; bio && all && (one = PEM_read_bio_X509(bio, NULL, NULL, NULL));)
        if (!sk_X509_push(all, one)) X509_free(one);
    return all;
}

static X509_STORE *read_authority(const char *pem) {
    LS_CLEANUP(free_stack) STACK_OF(X509) *all = read_all(pem);
    X509_STORE *store = X509_STORE_new();
    for (int i = 0; store && all && i < sk_X509_num(all); i++) (void)X509_STORE_add_cert(store, sk_X509_value(all, i));
    return store;
}

/* ---- checking ---- */

static void print_names(X509 *certificate, char *text, size_t size) {
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names) && used + 2 < size; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_DNS) continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", ASN1_STRING_length(name->d.dNSName),
                             (const char *)ASN1_STRING_get0_data(name->d.dNSName));
    }
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7E) *at = '?';
    GENERAL_NAMES_free(names);
}

/* Turns libcrypto's error into words that tell the user what to renew or replace. */
static ls_status explain(X509 *certificate, int error, const char *name) {
    char names[256];
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return ls_fail(LS_UNAUTHENTICATED, "has expired");
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return ls_fail(LS_UNAUTHENTICATED, "is not valid yet: one of the clocks is wrong");
    case X509_V_ERR_HOSTNAME_MISMATCH:
        print_names(certificate, names, sizeof(names));
        return ls_fail(LS_UNAUTHENTICATED, "is for '%s', not for '%s'", names, name);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return ls_fail(LS_UNAUTHENTICATED, "is not signed by the authority");
    default:
        return ls_fail(LS_UNAUTHENTICATED, "is not valid: %s", X509_verify_cert_error_string(error));
    }
}

/* The store holds what is trusted, `between` holds what a path may pass through without being trusted, and `first` is
 * the certificate in question. libcrypto compares the name in the same run, because the host is one of the parameters:
 * a wildcard such as *.lockstep would make one certificate good for every task, so it is turned off, as is the subject
 * (docs/security.md, "TLS"). */
ls_status ls_certificate_verify(const char *chain, const char *authority, const char *name) {
    LS_CLEANUP(free_certificate) X509 *first = read_first(chain);
    LS_CLEANUP(free_stack) STACK_OF(X509) *between = read_all(chain);
    LS_CLEANUP(free_store) X509_STORE *store = read_authority(authority);
    LS_CLEANUP(free_context) X509_STORE_CTX *context = X509_STORE_CTX_new();
    if (!first) return ls_fail(LS_UNAUTHENTICATED, "is no certificate in PEM");
    if (!store || !context || !X509_STORE_CTX_init(context, store, first, between))
        return fail_crypto("prepare to check a certificate");
    X509_VERIFY_PARAM *wanted = X509_STORE_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS);
    if (!X509_VERIFY_PARAM_set1_host(wanted, name, 0)) return fail_crypto("prepare to check a certificate");
    if (X509_verify_cert(context) == 1) return LS_OK;
    return explain(first, X509_STORE_CTX_get_error(context), name);
}

ls_status ls_certificate_check_key(const char *chain, const char *key) {
    LS_CLEANUP(free_certificate) X509 *first = read_first(chain);
    LS_CLEANUP(free_bio) BIO *bio = BIO_new_mem_buf(key, -1);
    LS_CLEANUP(free_key) EVP_PKEY *read = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    if (!first) return ls_fail(LS_INVALID_ARGUMENT, "is no certificate in PEM");
    if (!read) return ls_fail(LS_INVALID_ARGUMENT, "has no key: the key's file is no private key in PEM");
    if (X509_check_private_key(first, read) != 1) return ls_fail(LS_INVALID_ARGUMENT, "belongs to another key");
    return LS_OK;
}

/* ---- making ---- */

void ls_certificate_release(struct ls_certificate_pair *pair) {
    if (pair->key) ls_proof_forget(pair->key, strlen(pair->key));
    ls_free(pair->certificate);
    ls_free(pair->key);
    *pair = (struct ls_certificate_pair){NULL, NULL};
}

static char *text_of(BIO *bio) {
    char *data, *text;
    long size = BIO_get_mem_data(bio, &data);
    if (size <= 0 || !(text = ls_alloc((size_t)size + 1))) return NULL;
    memcpy(text, data, (size_t)size);
    return text;
}

/* libcrypto erases the memory of BIO_s_secmem when it frees it. ls_certificate_release erases the copy of the key. */
static ls_status write_pair(X509 *certificate, EVP_PKEY *key, struct ls_certificate_pair *pair) {
    LS_CLEANUP(free_bio) BIO *first = BIO_new(BIO_s_mem());
    LS_CLEANUP(free_bio) BIO *second = BIO_new(BIO_s_secmem());
    if (!first || !second || !PEM_write_bio_X509(first, certificate) ||
        !PEM_write_bio_PKCS8PrivateKey(second, key, NULL, NULL, 0, NULL, NULL))
        return fail_crypto("write a certificate");
    struct ls_certificate_pair made = {text_of(first), text_of(second)};
    if (made.certificate && made.key) {
        *pair = made;
        return LS_OK;
    }
    ls_certificate_release(&made);
    return ls_fail_memory("a certificate", 0);
}

/* A serial number is positive and has at most 20 bytes (RFC 5280, section 4.1.2.2). A random one of 127 bits needs no
 * memory of those that were given out before. */
static bool set_serial(X509 *certificate) {
    BIGNUM *number = BN_new();
    bool done = number && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
                BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    return done;
}

/* A certificate begins EARLIER before now, for a peer whose clock is behind. Days below 0 make one that has expired: it
 * then begins a day before its end. */
static bool set_times(X509 *certificate, int days) {
    long begin = days < 0 ? 86400L * (days - 1L) : -EARLIER;
    return X509_gmtime_adj(X509_getm_notBefore(certificate), begin) &&
           X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, NULL);
}

static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool done = extension && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return done;
}

/* A certificate without extensions and signature. */
static X509 *begin_certificate(const char *name, int days, EVP_PKEY *key) {
    X509 *certificate = X509_new();
    X509_NAME *subject = certificate ? X509_get_subject_name(certificate) : NULL;
    if (subject && X509_set_version(certificate, X509_VERSION_3) && set_serial(certificate) &&
        set_times(certificate, days) && X509_set_pubkey(certificate, key) &&
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0))
        return certificate;
    X509_free(certificate);
    return NULL;
}

/* The authority's key signs certificates and lists of revoked ones, and nothing else. With pathlen:0 no other authority
 * may stand below it (RFC 5280, section 4.2.1.9). */
ls_status ls_certificate_make_authority(const char *name, int days, struct ls_certificate_pair *pair) {
    LS_CLEANUP(free_key) EVP_PKEY *key = EVP_EC_gen("P-256");
    LS_CLEANUP(free_certificate) X509 *made = key ? begin_certificate(name, days, key) : NULL;
    if (!made || !X509_set_issuer_name(made, X509_get_subject_name(made)) ||
        !add_extension(made, made, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !add_extension(made, made, NID_key_usage, "critical,keyCertSign,cRLSign") ||
        !add_extension(made, made, NID_subject_key_identifier, "hash") || !X509_sign(made, key, EVP_sha256()))
        return fail_crypto("make an authority");
    return write_pair(made, key, pair);
}

/* A task dials and is dialled, so its certificate is for servers and clients. Its key signs the handshake and never
 * encrypts: TLS 1.3 agrees on keys by Diffie-Hellman alone. */
ls_status ls_certificate_issue(const struct ls_certificate_pair *authority, const char *name, int days,
                               struct ls_certificate_pair *pair) {
    char names[320];
    LS_CLEANUP(free_certificate) X509 *issuer = read_first(authority->certificate);
    LS_CLEANUP(free_bio) BIO *bio = BIO_new_mem_buf(authority->key, -1);
    LS_CLEANUP(free_key) EVP_PKEY *signer = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    LS_CLEANUP(free_key) EVP_PKEY *key = EVP_EC_gen("P-256");
    LS_CLEANUP(free_certificate) X509 *made = key ? begin_certificate(name, days, key) : NULL;
    (void)snprintf(names, sizeof(names), "DNS:%s", name);
    if (!issuer || !signer || !made || !X509_set_issuer_name(made, X509_get_subject_name(issuer)) ||
        !add_extension(made, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
        !add_extension(made, issuer, NID_key_usage, "critical,digitalSignature") ||
        !add_extension(made, issuer, NID_ext_key_usage, "serverAuth,clientAuth") ||
        !add_extension(made, issuer, NID_subject_alt_name, names) ||
        !add_extension(made, issuer, NID_subject_key_identifier, "hash") ||
        !add_extension(made, issuer, NID_authority_key_identifier, "keyid") || !X509_sign(made, signer, EVP_sha256()))
        return fail_crypto("make a certificate");
    return write_pair(made, key, pair);
}
