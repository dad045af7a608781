/* Walks over the ports from a random start and keeps those that it could lock and bind. */
#define _GNU_SOURCE
#include "launch/run_ports.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_PORT 10000 /* below lie the ports that services like to listen on */
#define LAST_PORT  65535

struct range {
    int low, high; /* the kernel's own: FIRST_PORT .. low - 1 and high + 1 .. LAST_PORT are ours */
};

static int range_size(const struct range *range) {
    int below = range->low > FIRST_PORT ? range->low - FIRST_PORT : 0;
    return below + (range->high < LAST_PORT ? LAST_PORT - range->high : 0);
}

static int range_port(const struct range *range, int index) {
    int below = range->low > FIRST_PORT ? range->low - FIRST_PORT : 0;
    return index < below ? FIRST_PORT + index : range->high + 1 + index - below;
}

/* The kernel's range of ephemeral ports, which is left alone; empty if too few ports lie outside it. */
static struct range read_range(int count) {
    struct range range = {32768, 60999}, everything = {LAST_PORT + 1, LAST_PORT};
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (file) {
        int low, high;
        if (fscanf(file, "%d %d", &low, &high) == 2 && 0 < low && low <= high && high <= LAST_PORT)
            range = (struct range){low, high};
        (void)fclose(file);
    }
    if (range.high < FIRST_PORT) range.high = FIRST_PORT - 1;
    return range_size(&range) < 4 * count ? everything : range;
}

/* A bound socket, or -1 if another process has the port. */
static int bound_socket(int family, const void *address, socklen_t size) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (!bind(fd, address, size)) return fd;
    (void)close(fd);
    return -1;
}

static int lock_port(int port) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "lockstep-run-port-%d", port);
    return bound_socket(AF_UNIX, &name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length));
}

/* Binds all interfaces: that fails when any address has a listener on the port. */
static int hold_port(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    return bound_socket(AF_INET, &address, sizeof(address));
}

static void try_port(struct ls_ports *ports, int port) {
    int lock = lock_port(port), hold = lock < 0 ? -1 : hold_port(port);
    if (hold >= 0)
        ports->at[ports->count++] = (struct ls_port){port, lock, hold};
    else if (lock >= 0)
        (void)close(lock);
}

static void walk(struct ls_ports *ports, int count) {
    struct range range = read_range(count);
    unsigned start = 0;
    if (getrandom(&start, sizeof(start), GRND_NONBLOCK) != sizeof(start)) start = (unsigned)getpid() * 7919U;
    int size = range_size(&range);
    for (int i = 0; i < size && ports->count < count; i++)
        try_port(ports, range_port(&range, (int)((start % (unsigned)size + (unsigned)i) % (unsigned)size)));
}

/* They are not bound: connections of the workers that had them may linger. */
bool ls_ports_take_again(const int *again, int count, struct ls_ports *ports) {
    *ports = (struct ls_ports){0, calloc((size_t)count, sizeof(*ports->at))};
    for (int lock; ports->at && ports->count < count && (lock = lock_port(again[ports->count])) >= 0; ports->count++)
        ports->at[ports->count] = (struct ls_port){again[ports->count], lock, -1};
    if (ports->count == count) return true;
    ls_ports_free(ports);
    return false;
}

bool ls_ports_take(int count, struct ls_ports *ports, char *why, size_t size) {
    *ports = (struct ls_ports){0, calloc((size_t)count, sizeof(*ports->at))};
    if (ports->at) walk(ports, count);
    if (ports->count == count) return true;
    (void)snprintf(why, size,
                   "found only %d of %d free ports on 127.0.0.1 (or ran out of file descriptors: see ulimit -n)",
                   ports->count, count);
    ls_ports_free(ports);
    return false;
}

void ls_ports_release(struct ls_ports *ports) {
    for (int i = 0; i < ports->count; i++)
        if (ports->at[i].hold >= 0) (void)close(ports->at[i].hold), ports->at[i].hold = -1;
}

void ls_ports_free(struct ls_ports *ports) {
    ls_ports_release(ports);
    for (int i = 0; i < ports->count; i++) (void)close(ports->at[i].lock);
    free(ports->at);
    *ports = (struct ls_ports){0};
}
