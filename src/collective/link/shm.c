/* A ring has one writer and one reader. Each counts the bytes that it has moved, and reads the other's count. A process
 * that is to sleep first writes what it waits for, and then looks once more. The other moves bytes, and then looks who
 * sleeps. So one of both sees the other. The counts of the other process are checked before they are used. */
#include "collective/link/shm.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "base/thread.h"
#include "base/memory.h"
#include "collective/shm/segment.h"

#define RING ((size_t)64 << 10)
#define STEP ((size_t)16 << 10) /* bytes after which the reader may begin with them */
enum { LOOKS = 256 /* in vain, until the socket is asked whether the other end is still there */ };

/* A line of the cache belongs to one process, but for those of the sleepers, which both seldom write. */
struct ring {
    alignas(64) _Atomic uint64_t written;
    alignas(64) _Atomic uint64_t taken;
    alignas(64) _Atomic uint32_t bytes_awaited; /* the reader sleeps until there are so many; 0: it does not sleep */
    alignas(64) _Atomic uint32_t room_awaited;  /* the writer, likewise */
    alignas(64) unsigned char bytes[RING];
};
_Static_assert(sizeof(struct ls_segment_address) == LS_SHM_LINK_ADDRESS,
               "an address is what goes to the other process");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "two processes share the counts");

struct ls_shm_link {
    struct ls_link link;    /* first: the handle is a pointer to it */
    struct ls_link *socket; /* NULL: not connected */
    struct ls_segment segment;
    struct ls_segment_address address; /* fd is -1 once nobody is to open it */
    struct ring *out, *in;
    uint64_t written, taken; /* this process's own counts, which the other cannot change */
    size_t low_water;
    bool sleeps;    /* it has said that it sleeps */
    int ended;      /* errno: the other end has gone, or breaks the rules; 0: not so */
    unsigned idle;  /* looks in a row that found nothing */
    unsigned forks; /* of this process */
};

/* ---- the socket ---- */

/* Returns false if it cannot be rung now. */
static bool ring_bell(struct ls_shm_link *shm) {
    static const unsigned char byte = 0;
    const struct iovec piece = {(void *)(uintptr_t)&byte, 1};
    ssize_t sent = shm->socket->ops->send(shm->socket, &piece, 1);
    if (sent < 0) shm->ended = errno;
    return sent != 0;
}

/* Takes what has woken this end. It wakes once more for bytes that stay in the socket. */
static void rise(struct ls_shm_link *shm) {
    unsigned char bytes[256];
    if (!shm->sleeps) return;
    shm->sleeps = false;
    atomic_store_explicit(&shm->in->bytes_awaited, 0, memory_order_relaxed);
    atomic_store_explicit(&shm->out->room_awaited, 0, memory_order_relaxed);
    if (shm->socket->ops->receive(shm->socket, bytes, sizeof(bytes)) < 0) shm->ended = errno;
}

/* The other end sleeps for at most so much, and there is as much now. */
static void wake_sleeper(struct ls_shm_link *shm, _Atomic uint32_t *awaited, size_t there) {
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t wanted = atomic_load_explicit(awaited, memory_order_relaxed);
    if (wanted && there >= wanted && atomic_exchange(awaited, 0) && !ring_bell(shm)) atomic_store(awaited, wanted);
}

/* ---- moving ---- */

/* The bytes in a ring of which these counts are known; a wrong one ends the link. */
static size_t filled(struct ls_shm_link *shm, uint64_t written, uint64_t taken) {
    if (written - taken <= RING) return (size_t)(written - taken);
    shm->ended = EPROTO;
    return 0;
}

static size_t bytes_here(struct ls_shm_link *shm) {
    return filled(shm, atomic_load_explicit(&shm->in->written, memory_order_acquire), shm->taken);
}

static size_t room_there(struct ls_shm_link *shm) {
    return RING - filled(shm, shm->written, atomic_load_explicit(&shm->out->taken, memory_order_acquire));
}

static void put_bytes(struct ls_shm_link *shm, const unsigned char *bytes, size_t size) {
    size_t at = (size_t)(shm->written % RING), first = ls_smaller_size(size, RING - at);
    memcpy(shm->out->bytes + at, bytes, first);
    memcpy(shm->out->bytes, bytes + first, size - first);
    shm->written += size;
}

static void take_bytes(struct ls_shm_link *shm, unsigned char *bytes, size_t size) {
    size_t at = (size_t)(shm->taken % RING), first = ls_smaller_size(size, RING - at);
    memcpy(bytes, shm->in->bytes + at, first);
    memcpy(bytes + first, shm->in->bytes, size - first);
    shm->taken += size;
}

static size_t send_piece(struct ls_shm_link *shm, const struct iovec *piece, size_t room) {
    size_t size = ls_smaller_size(piece->iov_len, room);
    for (size_t sent = 0; sent < size;) {
        size_t step = ls_smaller_size(size - sent, STEP);
        put_bytes(shm, (const unsigned char *)piece->iov_base + sent, step);
        sent += step;
        if (sent < size) atomic_store_explicit(&shm->out->written, shm->written, memory_order_release);
    }
    return size;
}

static ssize_t set_errno(int error) {
    errno = error;
    return -1;
}

/* A child of fork has the memory, too, and must leave it to its parent. */
static bool is_in_child(const struct ls_shm_link *shm) {
    return shm->forks != ls_forked_times();
}

static ssize_t shm_send(struct ls_link *link, const struct iovec *pieces, int count) {
    struct ls_shm_link *shm = (struct ls_shm_link *)link;
    if (is_in_child(shm)) return set_errno(EBADF);
    rise(shm);
    size_t room = room_there(shm), left = room;
    if (shm->ended) return set_errno(shm->ended);
    for (int i = 0; i < count && left; i++) left -= send_piece(shm, &pieces[i], left);
    if (left == room) return 0;
    atomic_store_explicit(&shm->out->written, shm->written, memory_order_release);
    wake_sleeper(shm, &shm->out->bytes_awaited, RING - room_there(shm));
    return (ssize_t)(room - left);
}

static ssize_t shm_receive(struct ls_link *link, void *data, size_t size) {
    struct ls_shm_link *shm = (struct ls_shm_link *)link;
    if (is_in_child(shm)) return set_errno(EBADF);
    if (shm->idle >= LOOKS) shm->sleeps = true;
    rise(shm);
    size_t here = ls_smaller_size(bytes_here(shm), size);
    shm->idle = here || shm->idle >= LOOKS ? 0 : shm->idle + 1;
    if (!here && shm->ended) return set_errno(shm->ended);
    if (!here) return 0;
    take_bytes(shm, data, here);
    atomic_store_explicit(&shm->in->taken, shm->taken, memory_order_release);
    wake_sleeper(shm, &shm->in->room_awaited, RING - bytes_here(shm));
    return (ssize_t)here;
}

/* ---- waiting ---- */

static bool shm_readable(struct ls_link *link) {
    struct ls_shm_link *shm = (struct ls_shm_link *)link;
    shm->sleeps = true; /* looks at the socket, too */
    rise(shm);
    return bytes_here(shm) || shm->ended;
}

/* A process that waits for room sleeps until half of the ring is free, so as not to be woken for each piece. */
static bool shm_poll(struct ls_link *link, short events, struct pollfd *slot) {
    struct ls_shm_link *shm = (struct ls_shm_link *)link;
    shm->sleeps = true;
    if (events & POLLIN) atomic_store_explicit(&shm->in->bytes_awaited, (uint32_t)shm->low_water, memory_order_relaxed);
    if (events & POLLOUT) atomic_store_explicit(&shm->out->room_awaited, (uint32_t)(RING / 2), memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    bool there = (events & POLLIN && bytes_here(shm) >= shm->low_water) || (events & POLLOUT && room_there(shm));
    (void)shm->socket->ops->poll(shm->socket, POLLIN, slot);
    return !there && !shm->ended;
}

static void shm_wake_at(struct ls_link *link, size_t bytes) {
    ((struct ls_shm_link *)link)->low_water = ls_smaller_size(bytes, RING / 2);
}

static void shm_close(struct ls_link *link) {
    ls_shm_link_free((struct ls_shm_link *)link);
}

static const struct ls_link_ops shm_ops = {
    .name = "shm",
    .send = shm_send,
    .receive = shm_receive,
    .poll = shm_poll,
    .wake_at = shm_wake_at,
    .readable = shm_readable,
    .close = shm_close,
};

/* ---- making ---- */

static const struct ls_segment_part rings = {0, 2 * sizeof(struct ring)};

/* error: of what was done about its memory, where it is one. */
static struct ls_shm_link *open_rings(struct ls_shm_link *shm, int error, bool made) {
    if (error) {
        ls_free(shm);
        return NULL;
    }
    struct ring *both = (struct ring *)(void *)shm->segment.memory;
    shm->link.ops = &shm_ops;
    shm->out = &both[made ? 0 : 1];
    shm->in = &both[made ? 1 : 0];
    shm->low_water = 1;
    shm->forks = ls_forked_times();
    return shm;
}

struct ls_shm_link *ls_shm_link_offer(unsigned char address[LS_SHM_LINK_ADDRESS]) {
    struct ls_shm_link *shm = ls_alloc(sizeof(*shm));
    int error = shm ? ls_segment_make(&rings, 1, &shm->segment, &shm->address) : ENOMEM;
    if (!error) memcpy(address, &shm->address, LS_SHM_LINK_ADDRESS);
    return open_rings(shm, error, true);
}

struct ls_shm_link *ls_shm_link_accept(const unsigned char address[LS_SHM_LINK_ADDRESS]) {
    struct ls_segment_address found;
    struct ls_shm_link *shm = ls_alloc(sizeof(*shm));
    memcpy(&found, address, sizeof(found));
    int error = shm ? ls_segment_open(&found, rings.size, &shm->segment) : ENOMEM;
    if (shm) shm->address.fd = -1;
    return open_rings(shm, error, false);
}

void ls_shm_link_free(struct ls_shm_link *shm) {
    if (!shm) return;
    if (shm->socket) shm->socket->ops->close(shm->socket);
    ls_segment_hide(&shm->address);
    ls_segment_unmap(&shm->segment);
    ls_free(shm);
}

struct ls_link *ls_shm_link_connect(struct ls_shm_link *shm, struct ls_link *socket) {
    ls_segment_hide(&shm->address);
    shm->socket = socket;
    return &shm->link;
}
