/* TLS: gRPC's own credentials for both ends of every connection. gRPC binds the port and connects by itself then, since
 * it takes descriptors with insecure credentials only.
 *
 * The server asks for a certificate but leaves checking it to whoever handles the call, before its first message
 * counts: so a refusal travels back over the finished handshake and says why. That the other end holds the
 * certificate's key has been proved by the handshake. The dialling side's check, of authority and name, is gRPC's. */
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "cluster/rpc_private.h"
#include "cluster/socket.h"

/* gRPC's structures hold char * also for what it only reads. */
static char *readable(const char *text) {
    union {
        const char *in;
        char *out;
    } cast = {text};
    return cast.out;
}

static grpc_server_credentials *server_credentials(const struct ls_rpc_tls *tls) {
    grpc_ssl_pem_key_cert_pair pair = {tls->key, tls->certificate};
    return grpc_ssl_server_credentials_create_with_options(grpc_ssl_server_credentials_create_options_using_config(
        GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY,
        grpc_ssl_server_certificate_config_create(tls->authority, &pair, 1)));
}

/* Every stranger's failed handshake would be a line of gRPC's on stderr. Where the user asks for its log, that stays.
 */
static void quiet_grpc(void) {
    if (!getenv("GRPC_VERBOSITY")) gpr_set_log_verbosity((gpr_log_severity)(GPR_LOG_SEVERITY_ERROR + 1));
}

bool ls_rpc_make_credentials(struct ls_rpc *rpc, const struct ls_rpc_tls *tls) {
    if (!tls) {
        rpc->server_credentials = grpc_insecure_server_credentials_create();
        rpc->channel_credentials = grpc_insecure_credentials_create();
        return true;
    }
    grpc_ssl_pem_key_cert_pair pair = {tls->key, tls->certificate};
    quiet_grpc();
    rpc->server_credentials = tls->certificate ? server_credentials(tls) : grpc_insecure_server_credentials_create();
    rpc->channel_credentials =
        grpc_ssl_credentials_create_ex(tls->authority, tls->certificate ? &pair : NULL, NULL, NULL);
    return rpc->server_credentials && rpc->channel_credentials;
}

ls_status ls_rpc_bind(struct ls_rpc *rpc, const struct ls_rpc_tls *tls) {
    for (int i = 0; tls && i < tls->address_count; i++)
        if (!grpc_server_add_http2_port(rpc->server, tls->addresses[i], rpc->server_credentials))
            return ls_fail(LS_FAILED_PRECONDITION,
                           "gRPC cannot listen on %s with this certificate and key (LOCKSTEP_TLS_*)",
                           tls->addresses[i]);
    return LS_OK;
}

static grpc_arg text_argument(const char *key, const char *value) {
    grpc_arg argument = {.type = GRPC_ARG_STRING, .key = readable(key)};
    argument.value.string = readable(value);
    return argument;
}

static grpc_arg integer_argument(const char *key, int value) {
    grpc_arg argument = {.type = GRPC_ARG_INTEGER, .key = readable(key)};
    argument.value.integer = value;
    return argument;
}

grpc_channel *ls_rpc_secure_channel(struct ls_rpc *rpc, int fd, const char *name, const grpc_channel_args *common) {
    enum { MOST = 16 };
    grpc_arg list[MOST];
    char address[LS_ADDRESS_TEXT], target[LS_ADDRESS_TEXT + 8];
    size_t count = 0;
    ls_socket_describe(fd, address); /* it was only to find out that somebody answers, and where */
    (void)close(fd);
    (void)snprintf(target, sizeof(target), "%s:%s", address[0] == '[' ? "ipv6" : "ipv4", address);
    for (; count < common->num_args && count < MOST - 4; count++) list[count] = common->args[count];
    list[count++] = text_argument(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, name);
    list[count++] = integer_argument(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1); /* a connection of its own */
    list[count++] = integer_argument(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    const grpc_channel_args arguments = {count, list};
    return grpc_channel_create(target, rpc->channel_credentials, &arguments);
}

/* Borrowed; "" where there is none. */
static const char *property_of(const grpc_auth_context *context, const char *name) {
    grpc_auth_property_iterator properties = grpc_auth_context_find_properties_by_name(context, name);
    const grpc_auth_property *property = grpc_auth_property_iterator_next(&properties);
    return property ? property->value : "";
}

/* The caller's own first; what OpenSSL calls its chain holds the others only. */
void ls_rpc_read_certificate(grpc_call *call, struct ls_rpc_caller *caller) {
    grpc_auth_context *context = grpc_call_auth_context(call);
    caller->certificate = NULL;
    if (!context) return;
    const char *own = property_of(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    const char *chain = property_of(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME);
    size_t size = strlen(own) + strlen(chain) + 1;
    if (*own) caller->certificate = ls_alloc(size);
    if (caller->certificate) (void)snprintf(caller->certificate, size, "%s%s", own, chain);
    grpc_auth_context_release(context);
}
