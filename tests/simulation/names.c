/* The parts of cluster/net that have nothing to do in a simulation, in their simplest form: names, listener, relay. */
#include "simulation/names.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "cluster/net/address.h"
#include "cluster/net/listener.h"
#include "cluster/net/name_lookup.h"
#include "cluster/net/relay.h"
#include "cluster/rpc/rpc.h"
#include "simulation/wire.h"

#define FIRST_PORT 2222

static int workers; /* a host */

void names_begin(int per_host) {
    workers = per_host;
}

void names_of(int rank, char *text, size_t size) {
    int host = rank / workers;
    (void)snprintf(text, size, "10.%d.%d.%d:%d", host >> 16, host >> 8 & 255, host & 255, FIRST_PORT + rank % workers);
}

int names_rank(const struct sockaddr_in *address) {
    int host = (int)(ntohl(address->sin_addr.s_addr) & 0xFFFFFF);
    return host * workers + ntohs(address->sin_port) - FIRST_PORT;
}

struct ls_name_lookup {
    struct addrinfo info;
    struct sockaddr_in address;
};

ls_status ls_name_lookup_start(const char *host, int port, struct ls_name_lookup **resolve) {
    struct ls_name_lookup *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a name to resolve", sizeof(*made));
    made->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    (void)inet_pton(AF_INET, host, &made->address.sin_addr);
    made->info = (struct addrinfo){.ai_family = AF_INET,
                                   .ai_addr = (struct sockaddr *)(void *)&made->address,
                                   .ai_addrlen = sizeof(made->address)};
    *resolve = made;
    return LS_OK;
}

bool ls_name_lookup_done(struct ls_name_lookup *resolve, const struct addrinfo **list, const char **why) {
    *list = &resolve->info;
    *why = "";
    return true;
}

void ls_name_lookup_free(struct ls_name_lookup *resolve) {
    ls_free(resolve);
}

void ls_address_tune(int fd) {
    (void)fd;
}

bool ls_address_is_within_host(int fd) {
    (void)fd;
    return false;
}

bool ls_address_is_own_end(int fd) {
    (void)fd;
    return false;
}

void ls_address_describe(int fd, bool own, char text[LS_ADDRESS_TEXT]) {
    (void)own;
    (void)snprintf(text, LS_ADDRESS_TEXT, "%d", fd);
}

void ls_address_close(const int *fds, int count) {
    for (int i = 0; i < count; i++) (void)close(fds[i]);
}

ls_status ls_address_listen(const struct ls_cluster_view *config, const struct ls_task *task, const struct ls_log *log,
                            int fds[LS_MAX_LISTEN], int *count) {
    (void)config, (void)task, (void)log, (void)fds;
    *count = 0;
    return LS_OK;
}

struct ls_listener {
    char unused;
};

ls_status ls_listener_new(const struct ls_listener_config *config, struct ls_listener **listener) {
    (void)config;
    *listener = ls_alloc(sizeof(**listener));
    wire_listen(*listener != NULL);
    return *listener ? LS_OK : ls_fail_memory("a listener", sizeof(**listener));
}

void ls_listener_trust(struct ls_listener *listener, int fd) {
    (void)listener, (void)fd;
}

void ls_listener_free(struct ls_listener *listener) {
    if (listener) wire_listen(false);
    ls_free(listener);
}

ls_status ls_relay_new(struct ls_refusals *refusals, struct ls_relay **relay) {
    (void)refusals;
    *relay = NULL;
    return LS_OK;
}

int ls_relay_add(struct ls_relay *relay, int fd, struct ls_tls *tls, size_t most) {
    (void)relay, (void)tls, (void)most;
    return fd;
}

void ls_relay_describe(struct ls_relay *relay, int inner, bool own, char text[LS_ADDRESS_TEXT]) {
    (void)relay;
    ls_address_describe(inner, own, text);
}

char *ls_relay_certificate(struct ls_relay *relay, int inner) {
    (void)relay, (void)inner;
    return NULL;
}

void ls_relay_free(struct ls_relay *relay) {
    (void)relay;
}

void ls_rpc_serve(struct ls_rpc *rpc, int fd) {
    (void)rpc, (void)fd;
}
