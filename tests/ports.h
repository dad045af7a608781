/* Ports of this machine for a test's workers. A block of ports belongs to the process that holds its first one, for as
 * long as it runs: programs of tests that run beside each other never get the same. The blocks lie below the kernel's
 * range for clients. tests/end_to_end/cluster.py takes blocks in the same way. Each port's lock is that of lockstep run
 * (src/launch/run_ports.c), so that it takes others. */
#pragma once
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORTS_BEGIN = 15000, PORTS_BLOCKS = 230, PORTS_BLOCK = 64 };

/* The socket that holds the port; -1 if somebody else does. again: connections of before may still fade there, as they
 * may for a worker that listens. */
static inline int hold_port(int port, int again) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &again, sizeof(again));
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0) return fd;
    if (fd >= 0) (void)close(fd);
    return -1;
}

/* For as long as the process runs. */
static inline bool lock_port(int port) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "lockstep-run-port-%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, size) == 0) return true;
    if (fd >= 0) (void)close(fd);
    return false;
}

static inline int take_port_block(void) {
    for (int i = 0; i < PORTS_BLOCKS; i++) {
        int begin = PORTS_BEGIN + (int)(((unsigned)getpid() * 37U + (unsigned)i) % PORTS_BLOCKS) * PORTS_BLOCK;
        if (hold_port(begin, 0) >= 0) return begin; /* until the process ends */
    }
    ck_abort_msg("no block of ports is free");
    return -1;
}

/* Writes count ports that nobody has. */
static inline void take_ports(int *ports, int count) {
    static int block, next;
    static bool locked[PORTS_BLOCK];
    if (!block) {
        block = take_port_block();
        for (int i = 1; i < PORTS_BLOCK; i++) locked[i] = lock_port(block + i);
    }
    for (int found = 0, tried = 0; found < count; tried++) {
        ck_assert_int_lt(tried, 4 * PORTS_BLOCK);
        int at = 1 + next++ % (PORTS_BLOCK - 1), port = block + at, fd = locked[at] ? hold_port(port, 1) : -1;
        if (fd < 0) continue;
        (void)close(fd);
        ports[found++] = port;
    }
}
