/* libssl reads and writes through a BIO of this file. libssl's own BIO of a socket would raise SIGPIPE in the user's
 * threads; this one does not, and it counts the bytes that a stranger sends before it has shown a certificate.
 *
 * A connection opens in two steps. The first is the handshake of TLS 1.3 (RFC 8446, section 2), in which both ends show
 * a certificate and libssl accepts any. The second is the verdict: each end checks the other's certificate
 * (ls_certificate_verify), and the end that was dialled sends one byte GOES_ON or the words of its refusal. TLS alone
 * has no such answer: the client's handshake ends when it sends its certificate, before the server has judged it, and
 * an alert that comes later has no room for words. */
#include "cluster/security/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/new.h"
#include "cluster/security/certificate.h"

#define HANDSHAKE_MOST    65536 /* bytes that come before a connection is open */
#define CERTIFICATES_MOST 32768
#define CIPHERS           "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define GOES_ON           0x06
#define FIRST             5 /* bytes: the header of a record */
#define WHY_MOST          256

struct ls_tls_identity {
    SSL_CTX *context;
    BIO_METHOD *method;
    const char *authority;
};

struct ls_tls {
    const struct ls_tls_identity *identity;
    SSL *ssl;
    int fd;
    bool dials;     /* this end does */
    char name[128]; /* of the other end; "": any */
    enum ls_tls_state state;
    bool shaken; /* the handshake is over, and the verdict follows */
    size_t come; /* bytes that have been read */
    char why[WHY_MOST];
    int error; /* of the socket, which has ended the connection; 0: none */
    char first[FIRST];
    size_t told; /* bytes of the verdict that have come */
};

/* ---- the socket ---- */

static void note_first(struct ls_tls *tls, const char *data, size_t size) {
    for (size_t i = 0; i < size && tls->come + i < FIRST; i++) tls->first[tls->come + i] = data[i];
}

/* A read that would block sets the BIO's retry flag: SSL_get_error then says WANT_READ instead of an error. Before the
 * connection is open, more than HANDSHAKE_MOST bytes end it, so a stranger cannot send handshake records without end.
 */
static int bio_read(BIO *bio, char *data, int size) {
    struct ls_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->state != LS_TLS_OPEN && tls->come > HANDSHAKE_MOST) return -1;
    ssize_t done = recv(tls->fd, data, (size_t)size, MSG_DONTWAIT);
    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    else if (done < 0)
        tls->error = errno;
    if (done > 0) note_first(tls, data, (size_t)done);
    if (done > 0) tls->come += (size_t)done;
    return (int)done;
}

static int bio_write(BIO *bio, const char *data, int size) {
    struct ls_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t done = send(tls->fd, data, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    else if (done < 0)
        tls->error = errno;
    return (int)done;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO *new_bio(struct ls_tls *tls) {
    BIO *bio = BIO_new(tls->identity->method);
    if (!bio) return NULL;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    return bio;
}

/* ---- who this process is ---- */

/* The verdict follows the handshake, so that the refused end can be told why. */
static int accept_any(int fine, X509_STORE_CTX *context) {
    (void)fine, (void)context;
    return 1;
}

static bool use_chain(SSL_CTX *context, BIO *bio) {
    X509 *first = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    bool used = first && SSL_CTX_use_certificate(context, first) == 1;
    X509_free(first);
    for (X509 *next; used && (next = PEM_read_bio_X509(bio, NULL, NULL, NULL)); X509_free(next))
        used = SSL_CTX_add1_chain_cert(context, next) == 1;
    ERR_clear_error(); /* the last read's, which found no further certificate */
    return used;
}

static bool use_key(SSL_CTX *context, BIO *bio) {
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    bool used = key && SSL_CTX_use_PrivateKey(context, key) == 1;
    EVP_PKEY_free(key);
    return used;
}

static bool use_text(SSL_CTX *context, const char *text, bool (*use)(SSL_CTX *context, BIO *bio)) {
    BIO *bio = BIO_new_mem_buf(text, -1);
    bool used = bio && use(context, bio);
    (void)BIO_free(bio);
    return used;
}

/* Only TLS 1.3 is spoken, and no session is resumed: a resumed one would show no certificate. The two modes of writing
 * let send take a part and be called again from another buffer; the relay does both. SSL_MODE_RELEASE_BUFFERS frees the
 * buffers of an idle connection. */
static bool prepare_context(SSL_CTX *context) {
    if (!context) return false;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, accept_any);
    SSL_CTX_set_max_cert_list(context, CERTIFICATES_MOST);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) && SSL_CTX_set_num_tickets(context, 0) &&
           SSL_CTX_set_ciphersuites(context, CIPHERS);
}

static bool prepare_method(BIO_METHOD *method) {
    return method && BIO_meth_set_read(method, bio_read) && BIO_meth_set_write(method, bio_write) &&
           BIO_meth_set_ctrl(method, bio_control);
}

void ls_tls_identity_free(struct ls_tls_identity *identity) {
    if (!identity) return;
    SSL_CTX_free(identity->context);
    BIO_meth_free(identity->method);
    ls_free(identity);
}

ls_status ls_tls_identity_new(const char *certificate, const char *key, const char *authority,
                              struct ls_tls_identity **made) {
    LS_NEW(struct ls_tls_identity, identity, "TLS");
    identity->authority = authority;
    identity->context = SSL_CTX_new(TLS_method());
    identity->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "lockstep");
    ls_status status = LS_OK;
    if (!prepare_context(identity->context) || !prepare_method(identity->method))
        status = ls_fail(LS_INTERNAL, "libssl could not be prepared");
    else if (certificate &&
             (!use_text(identity->context, certificate, use_chain) || !use_text(identity->context, key, use_key)))
        status = ls_fail(LS_INVALID_ARGUMENT, "libssl refuses the certificate or key of LOCKSTEP_TLS_*");
    if (status)
        ls_tls_identity_free(identity);
    else
        *made = identity;
    ERR_clear_error();
    return status;
}

/* ---- towards an open connection ---- */

struct ls_tls *ls_tls_new(const struct ls_tls_identity *identity, int fd, const char *name) {
    struct ls_tls *tls = ls_alloc(sizeof(*tls));
    if (!tls) return NULL;
    tls->identity = identity;
    tls->fd = fd;
    tls->dials = name != NULL;
    (void)snprintf(tls->name, sizeof(tls->name), "%s", name ? name : "");
    tls->ssl = SSL_new(identity->context);
    BIO *bio = tls->ssl ? new_bio(tls) : NULL;
    if (!bio) {
        SSL_free(tls->ssl);
        ls_free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, bio, bio);
    if (name)
        SSL_set_connect_state(tls->ssl);
    else
        SSL_set_accept_state(tls->ssl);
    return tls;
}

/* Returns the state that follows from a call that has not succeeded. */
static enum ls_tls_state judge(struct ls_tls *tls, int result) {
    if (tls->come > HANDSHAKE_MOST) {
        (void)snprintf(tls->why, sizeof(tls->why), "more comes than a handshake takes");
        return LS_TLS_FAILED;
    }
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return LS_TLS_READS;
    case SSL_ERROR_WANT_WRITE:
        return LS_TLS_WRITES;
    case SSL_ERROR_SSL:
        (void)snprintf(tls->why, sizeof(tls->why), "%s", ERR_reason_error_string(ERR_peek_last_error()));
        return LS_TLS_FAILED;
    default:
        (void)snprintf(tls->why, sizeof(tls->why), "the connection was closed in the handshake");
        return LS_TLS_GONE;
    }
}

/* Checks the other end's certificate. Returns false if it is refused, and `why` has the words. */
static bool trusts(struct ls_tls *tls) {
    char *chain = ls_tls_certificate(tls);
    bool fine = chain && ls_certificate_verify(chain, tls->identity->authority, *tls->name ? tls->name : NULL) == LS_OK;
    if (!fine) (void)snprintf(tls->why, sizeof(tls->why), "%s", chain ? ls_error() : "is missing");
    ls_free(chain);
    ERR_clear_error(); /* the check's, which libssl would take for its own */
    return fine;
}

/* The dialled end sends its verdict: the byte GOES_ON, or the words of `why`. */
static enum ls_tls_state say_verdict(struct ls_tls *tls) {
    static const char goes_on[] = {GOES_ON, 0};
    const char *verdict = *tls->why ? tls->why : goes_on;
    int size = (int)strlen(verdict), done = SSL_write(tls->ssl, verdict, size);
    if (done <= 0) return judge(tls, done);
    return *tls->why ? LS_TLS_UNTRUSTED : LS_TLS_OPEN;
}

static void keep_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7E) *text = '?';
}

/* The dialling end reads one byte first: what follows GOES_ON is the user's. Any other byte begins the words of a
 * refusal, which are read until the other end closes. They come from a stranger, so keep_printable replaces all but
 * ASCII. */
static enum ls_tls_state hear_verdict(struct ls_tls *tls) {
    for (;;) {
        int most = (int)(sizeof(tls->why) - 1 - tls->told),
            done = SSL_read(tls->ssl, tls->why + tls->told, tls->told ? most : 1);
        if (done <= 0 && !tls->told) return judge(tls, done);
        if (done <= 0) {
            enum ls_tls_state state =
                SSL_get_error(tls->ssl, done) == SSL_ERROR_WANT_READ ? LS_TLS_READS : LS_TLS_REFUSED;
            if (state == LS_TLS_REFUSED) keep_printable(tls->why);
            return state;
        }
        if (!tls->told && tls->why[0] == GOES_ON) {
            tls->why[0] = 0;
            return LS_TLS_OPEN;
        }
        tls->told += (size_t)done;
    }
}

static enum ls_tls_state step(struct ls_tls *tls) {
    if (!tls->shaken) {
        int done = SSL_do_handshake(tls->ssl);
        if (done != 1) return judge(tls, done);
        tls->shaken = true;
        if (!trusts(tls) && tls->dials) return LS_TLS_UNTRUSTED;
    }
    return tls->dials ? hear_verdict(tls) : say_verdict(tls);
}

enum ls_tls_state ls_tls_open(struct ls_tls *tls) {
    ERR_clear_error();
    if (tls->state < LS_TLS_OPEN) tls->state = step(tls);
    ERR_clear_error();
    return tls->state;
}

const char *ls_tls_why(const struct ls_tls *tls) {
    return tls->why;
}

bool ls_tls_began_with(const struct ls_tls *tls, const char *text) {
    return tls->come >= FIRST && strncmp(tls->first, text, FIRST) == 0;
}

/* ---- an open one ---- */

/* Translates a result of libssl into that of recv and send. A read may need to write and the reverse (a key update, RFC
 * 8446, section 4.6.3), so both wishes are EAGAIN. close_notify is the end, 0; an end without it is an error, because
 * anybody on the way could have cut the connection there (RFC 8446, section 6.1). */
static ssize_t result_of(struct ls_tls *tls, int done) {
    if (done > 0) return done;
    int error = SSL_get_error(tls->ssl, done);
    errno = tls->error ? tls->error : ECONNRESET;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) errno = EAGAIN;
    return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

ssize_t ls_tls_receive(struct ls_tls *tls, void *data, size_t size) {
    ERR_clear_error();
    return result_of(tls, SSL_read(tls->ssl, data, (int)size));
}

ssize_t ls_tls_send(struct ls_tls *tls, const void *data, size_t size) {
    ERR_clear_error();
    return result_of(tls, SSL_write(tls->ssl, data, (int)size));
}

static bool put_certificate(BIO *bio, X509 *certificate) {
    return certificate && PEM_write_bio_X509(bio, certificate) == 1;
}

char *ls_tls_certificate(const struct ls_tls *tls) {
    X509 *own = SSL_get0_peer_certificate(tls->ssl);
    STACK_OF(X509) *chain = SSL_get_peer_cert_chain(tls->ssl);
    BIO *bio = own ? BIO_new(BIO_s_mem()) : NULL;
    char *text = NULL, *data;
    bool put = bio && put_certificate(bio, own);
    for (int i = 0; put && chain && i < sk_X509_num(chain); i++) put = put_certificate(bio, sk_X509_value(chain, i));
    long size = put ? BIO_get_mem_data(bio, &data) : 0;
    if (size > 0 && (text = ls_alloc((size_t)size + 1))) memcpy(text, data, (size_t)size);
    (void)BIO_free(bio);
    return text;
}

void ls_tls_free(struct ls_tls *tls) {
    if (!tls) return;
    ERR_clear_error();
    if (tls->shaken) (void)SSL_shutdown(tls->ssl);
    SSL_free(tls->ssl);
    ls_free(tls);
}
