/* Sockets that connect, for cluster/net/dial.c: a kernel answers for its processes, or nobody does. */
#include <errno.h>
#include <netinet/in.h>

#include "simulation/clock_world.h"
#include "simulation/libc.h"
#include "simulation/names.h"
#include "simulation/wire_private.h"

#define SYN_AGAIN LS_SECOND

int __wrap_socket(int family, int type, int protocol) {
    (void)family, (void)type, (void)protocol;
    return descriptor_new(true);
}

static struct descriptor *same_socket(const void *context, uint64_t serial) {
    struct descriptor *descriptor = descriptor_of((int)(intptr_t)context);
    return descriptor && descriptor->serial == serial ? descriptor : NULL;
}

static void finish_connect(void *context, uint64_t serial) {
    struct descriptor *descriptor = same_socket(context, serial);
    if (!descriptor) return;
    if (descriptor->remote && !descriptor->remote->alive) descriptor->error = ECONNREFUSED;
    descriptor_set_ready(descriptor);
}

/* A kernel answers, also for a process that is frozen. */
static void reach(void *context, uint64_t serial) {
    struct descriptor *descriptor = same_socket(context, serial);
    if (!descriptor) return;
    int rank = (int)descriptor->count;
    struct wires *there = rank < wire_net.tasks ? wire_net.listening[rank] : NULL;
    struct process *own = descriptor->process;
    bool apart = wire_net.sides && wire_net.sides[own->rank] != wire_net.sides[rank] &&
                 clock_now() >= wire_net.cut_from && clock_now() < wire_net.cut_until;
    if (apart || (there && there->dead_since)) {
        clock_at(clock_now() + SYN_AGAIN, reach, context, serial);
        return;
    }
    descriptor->remote = there ? there->process : NULL;
    descriptor->error = there ? 0 : ECONNREFUSED;
    clock_at(clock_now() + clock_between(WIRE_LEAST_DELAY, WIRE_MOST_DELAY), finish_connect, context, serial);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size) {
    const struct sockaddr_in *inet = (const struct sockaddr_in *)(const void *)address;
    struct descriptor *descriptor = descriptor_of(fd);
    (void)size;
    descriptor->count = (uint64_t)names_rank(inet);
    int64_t at = clock_now() + clock_between(WIRE_LEAST_DELAY, WIRE_MOST_DELAY) + descriptor->process->slow;
    clock_at(at, reach, (void *)(intptr_t)fd, descriptor->serial); /* NOLINT */
    errno = EINPROGRESS;
    return -1;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size) {
    const struct descriptor *descriptor = descriptor_of(fd);
    (void)level, (void)option, (void)size;
    if (!descriptor) return -1;
    *(int *)value = descriptor->error;
    return 0;
}
