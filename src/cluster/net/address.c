/* A task listens on its own address alone where it can: that keeps the port off the host's other networks. There are
 * two cases where it cannot. A service address (Kubernetes) is not local. And some hosts resolve their own name to
 * loopback, where no other host reaches it. The task then listens on all interfaces. */
#include "cluster/net/address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/thread.h"
#include "base/status.h"
#include "cluster/net/name_lookup.h"
#include "resolver/tf_config.h"

#define BACKLOG 1024

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage storage;
};

static void set_option(int fd, int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* An idle connection is probed after 10 s, then every 5 s, and given up after 4 probes without an answer: 30 s. A
 * connection with data under way sends no such probes (RFC 9293, section 3.8.4); TCP_USER_TIMEOUT gives it up after the
 * same 30 s without an acknowledgement, in place of Linux's quarter of an hour. TCP_NODELAY turns Nagle's algorithm off
 * (RFC 896), which would hold a small message back until the one before is acknowledged. A connection with few packets
 * under way does not double its timeout at each loss: a sign of life that is lost three times would come after 3 s. */
void ls_address_tune(int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);
    set_option(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
    static const char cubic[] =
        "cubic"; /* where the kernel has it: bbr, the default of some, is slower inside a rack */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cubic, sizeof(cubic) - 1);
}

static bool same_host(const struct sockaddr *a, const struct sockaddr *b) {
    union address left = {0}, right = {0};
    if (!a || !b || a->sa_family != b->sa_family) return false;
    size_t size = a->sa_family == AF_INET ? sizeof(left.v4) : sizeof(left.v6);
    memcpy(&left, a, size);
    memcpy(&right, b, size);
    if (a->sa_family == AF_INET) return left.v4.sin_addr.s_addr == right.v4.sin_addr.s_addr;
    return a->sa_family == AF_INET6 && memcmp(&left.v6.sin6_addr, &right.v6.sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool find_end(int fd, bool own, union address *address, socklen_t *size) {
    *address = (union address){.any.sa_family = AF_UNSPEC};
    *size = sizeof(*address);
    return (own ? getsockname : getpeername)(fd, &address->any, size) == 0;
}

void ls_address_describe(int fd, bool own, char text[LS_ADDRESS_TEXT]) {
    union address end;
    socklen_t size;
    char host[48], port[8];
    if (!find_end(fd, own, &end, &size) ||
        getnameinfo(&end.any, size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        (void)snprintf(text, LS_ADDRESS_TEXT, "somebody");
    else
        (void)snprintf(text, LS_ADDRESS_TEXT, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static bool find_ends(int fd, union address *own, union address *peer) {
    socklen_t size;
    return find_end(fd, true, own, &size) && find_end(fd, false, peer, &size);
}

/* The kernel may choose as the source port of a connect the very port that is dialled, if nobody listens there on this
 * host. The SYN then meets its own socket, and TCP's simultaneous open (RFC 9293, section 3.5) connects it to itself.
 */
bool ls_address_is_own_end(int fd) {
    union address own, peer;
    return find_ends(fd, &own, &peer) && same_host(&own.any, &peer.any) &&
           own.v4.sin_port == peer.v4.sin_port; /* v6 has its port there too */
}

static bool is_loopback(const struct sockaddr *address) {
    union address copy = {0};
    if (address->sa_family == AF_INET) {
        memcpy(&copy.v4, address, sizeof(copy.v4));
        return (ntohl(copy.v4.sin_addr.s_addr) >> 24) == 127;
    }
    if (address->sa_family != AF_INET6) return false;
    memcpy(&copy.v6, address, sizeof(copy.v6));
    const struct in6_addr *v6 = &copy.v6.sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

bool ls_address_is_within_host(int fd) {
    union address own, peer;
    return find_ends(fd, &own, &peer) &&
           (same_host(&own.any, &peer.any) || (is_loopback(&own.any) && is_loopback(&peer.any)));
}

static bool is_local(const struct sockaddr *address) {
    struct ifaddrs *list;
    if (is_loopback(address)) return true;
    if (getifaddrs(&list) != 0) return false;
    bool found = false;
    for (struct ifaddrs *at = list; at && !found; at = at->ifa_next) found = same_host(at->ifa_addr, address);
    freeifaddrs(list);
    return found;
}

static bool has_remote_peers(const struct ls_cluster_view *config, const char *own) {
    for (int rank = 0; rank < config->num_workers; rank++) {
        const struct ls_task *task = ls_cluster_view_member(config, rank);
        if (!task || strcmp(task->host, own) == 0 || ls_tf_config_address_is_nowhere(task->host)) continue;
        if (!ls_tf_config_address_is_loopback(task->host)) return true;
    }
    return false;
}

static int open_socket(const struct sockaddr *address, socklen_t size, bool dual, bool listens) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    ls_forked_closes(fd);
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, listens); /* two that only hold a port could both have it */
    if (address->sa_family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !dual);
    if (bind(fd, address, size) == 0 && (!listens || listen(fd, BACKLOG) == 0)) return fd;
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

static ls_status refuse_port(const struct ls_task *task, int error) {
    if (error == EADDRINUSE)
        return ls_fail(LS_FAILED_PRECONDITION,
                       "port %d of this task's address '%s' is already in use on this host: end the process that "
                       "listens there (an earlier run of this task?) or give the task another port in TF_CONFIG",
                       task->port, task->address);
    return ls_fail(LS_FAILED_PRECONDITION, "cannot listen on port %d of this task's address '%s': %s", task->port,
                   task->address, strerror(error));
}

/* One IPv6 socket takes IPv4 connections as well (IPV6_V6ONLY is off). A host without IPv6 gets an IPv4 socket. */
static int open_everywhere(int port, bool listens) {
    union address any = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    int fd = open_socket(&any.any, sizeof(any.v6), true, listens);
    if (fd >= 0 || errno == EADDRINUSE) return fd;
    any = (union address){.v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};
    return open_socket(&any.any, sizeof(any.v4), true, listens);
}

int ls_address_hold(int port) {
    return open_everywhere(port, false);
}

static ls_status listen_everywhere(const struct ls_task *task, int fds[LS_MAX_LISTEN], int *count) {
    fds[0] = open_everywhere(task->port, true);
    *count = fds[0] >= 0;
    return *count ? LS_OK : refuse_port(task, errno);
}

/* Returns the reason against binding the task's own addresses; NULL: there is none. */
static const char *reason_against(const struct ls_cluster_view *config, const struct ls_task *task,
                                  const struct addrinfo *list) {
    if (!list) return "it does not resolve here";
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        if (!is_local(at->ai_addr)) return "it is not an address of this host";
        if (is_loopback(at->ai_addr) && has_remote_peers(config, task->host))
            return "it is a loopback address and other tasks are on other hosts";
    }
    return NULL;
}

void ls_address_close(const int *fds, int count) {
    for (int i = 0; i < count; i++) (void)close(fds[i]);
}

static ls_status listen_on(const struct ls_task *task, const struct addrinfo *list, int fds[LS_MAX_LISTEN],
                           int *count) {
    int opened = 0, error = EADDRNOTAVAIL;
    for (const struct addrinfo *at = list; at && opened < LS_MAX_LISTEN; at = at->ai_next) {
        int fd = open_socket(at->ai_addr, at->ai_addrlen, false, true);
        if (fd >= 0) {
            fds[opened++] = fd;
            continue;
        }
        error = errno;
        if (error == EADDRINUSE) break;
    }
    if (!opened || error == EADDRINUSE) {
        ls_address_close(fds, opened);
        return refuse_port(task, error);
    }
    *count = opened;
    return LS_OK;
}

static const struct addrinfo *wait_for_addresses(struct ls_name_lookup *resolve) {
    int64_t deadline = ls_now() + LS_OWN_NAME_TIMEOUT;
    const struct addrinfo *list = NULL;
    const char *why;
    while (!ls_name_lookup_done(resolve, &list, &why) && ls_now() < deadline) (void)poll(NULL, 0, 5);
    return list;
}

ls_status ls_address_listen(const struct ls_cluster_view *config, const struct ls_task *task, const struct ls_log *log,
                            int fds[LS_MAX_LISTEN], int *count) {
    struct ls_name_lookup *resolve;
    ls_status status = ls_name_lookup_start(task->host, task->port, &resolve);
    if (status) return status;
    const struct addrinfo *list = wait_for_addresses(resolve);
    const char *reason = reason_against(config, task, list);
    if (reason) {
        ls_log_info(log, "listening on port %d of all interfaces, not only on '%s': %s", task->port, task->host,
                    reason);
        status = listen_everywhere(task, fds, count);
    } else {
        status = listen_on(task, list, fds, count);
    }
    ls_name_lookup_free(resolve);
    return status;
}
