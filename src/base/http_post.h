/* One POST by HTTP or HTTPS, through OpenSSL's client. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_http_post {
    const char *url;       /* http:// or https:// */
    const char *authority; /* a file of certificates that the server's must be of; NULL: those of the system */
    const char *token;     /* of "Authorization: Bearer"; NULL: none */
    const char *type;      /* Content-Type */
    const char *body;
};
/* INVALID_ARGUMENT: it is no URL of http or https. */
ls_status ls_http_post_check(const char *url);
/* Returns when the server has answered, after LS_POST_TIMEOUT at the latest. UNAVAILABLE says what went wrong: the
 * connection, the certificate, or another status than 2xx. INVALID_ARGUMENT: url is none. */
ls_status ls_http_post_send(const struct ls_http_post *post);
