/* A link in memory between two processes: bytes of drawn sizes both ways, sleep and wake, ends, and an other end that
 * breaks the rules.
 *
 * LOCKSTEP_TEST_SEED=N repeats a run. */
#define _GNU_SOURCE /* memfd_create */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "collective/given.h"
#include "collective/link/shm.h"
#include "harness.h"

enum { TOTAL = MANY(8 << 20), MOST = 200000, WAIT = 20000 /* milliseconds: never in a run without fault */ };

static uint64_t seed;

static size_t drawn(uint64_t stream, uint64_t index, size_t most) {
    uint64_t bits = ls_random_bits(seed, stream, index);
    return 1 + (size_t)(bits & 3 ? (bits >> 8) % 300 : (bits >> 8) % most);
}

/* ---- a pair ---- */

static pid_t other = -1;

/* The sockets are made before the fork, as a connection would be; each process opens the memory itself. */
static struct ls_link *meet(void) {
    struct ls_link *ends[2];
    unsigned char address[LS_SHM_LINK_ADDRESS];
    int opened[2];
    char byte = 0;
    local_pair(ends);
    ck_assert_int_eq(pipe(opened), 0);
    struct ls_shm_link *offered = ls_shm_link_offer(address);
    ck_assert_ptr_nonnull(offered);
    other = fork();
    ck_assert_int_ge(other, 0);
    if (!other) {
        ends[0]->ops->close(ends[0]);
        struct ls_shm_link *accepted = ls_shm_link_accept(address);
        if (!accepted || write(opened[1], &byte, 1) != 1) _exit(9);
        return ls_shm_link_connect(accepted, ends[1]);
    }
    ends[1]->ops->close(ends[1]);
    ck_assert_int_eq(read(opened[0], &byte, 1), 1);
    struct ls_link *link = ls_shm_link_connect(offered, ends[0]);
    ck_assert_ptr_null(ls_shm_link_accept(address)); /* a third process finds nothing any more */
    return link;
}

/* Waits as collectives do. False: nothing has come in time. */
static bool await(struct ls_link *link, short events) {
    struct pollfd slot;
    return !link->ops->poll(link, events, &slot) || poll(&slot, 1, WAIT) == 1;
}

static void expect_end(struct ls_link *link) {
    char byte;
    ssize_t got;
    while (!(got = link->ops->receive(link, &byte, 1))) ck_assert(await(link, POLLIN));
    ck_assert_int_eq(got, -1);
    ck_assert_int_eq(errno, ECONNRESET);
}

static void end_other(int expected) {
    int status;
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == expected, "the other process ends with %x", status);
}

/* ---- bytes ---- */

static unsigned char value_of(size_t at, int way) {
    return (unsigned char)(at * 2654435761U >> 13 ^ (size_t)way);
}

/* One process sends and receives TOTAL bytes in portions of its own, and lags now and then. */
struct flow {
    struct ls_link *link;
    int way; /* 0, 1: of what it sends */
    size_t sent, received, turn;
    unsigned char out[MOST], in[MOST];
};

static bool send_some(struct flow *flow) {
    size_t size = drawn((uint64_t)flow->way, flow->turn, MOST), half = size / 3;
    if (size > TOTAL - flow->sent) size = TOTAL - flow->sent;
    if (half > size) half = size;
    if (!size) return false;
    for (size_t i = 0; i < size; i++) flow->out[i] = value_of(flow->sent + i, flow->way);
    const struct iovec pieces[2] = {{flow->out, half}, {flow->out + half, size - half}};
    ssize_t sent = flow->link->ops->send(flow->link, pieces, 2);
    if (sent < 0) return false;
    flow->sent += (size_t)sent;
    return sent > 0;
}

/* False: no byte, or a wrong one. */
static bool receive_some(struct flow *flow, bool *right) {
    size_t size = drawn(2 + (uint64_t)flow->way, flow->turn, MOST);
    if (size > TOTAL - flow->received) size = TOTAL - flow->received;
    ssize_t got = size ? flow->link->ops->receive(flow->link, flow->in, size) : 0;
    for (ssize_t i = 0; i < got; i++)
        *right = *right && flow->in[i] == value_of(flow->received + (size_t)i, 1 - flow->way);
    if (got > 0) flow->received += (size_t)got;
    *right = *right && got >= 0;
    return got > 0;
}

/* True when all bytes have gone and come, each right. */
static bool exchange(struct flow *flow) {
    bool right = true;
    while (right && (flow->sent < TOTAL || flow->received < TOTAL)) {
        bool moved = send_some(flow);
        moved |= receive_some(flow, &right);
        short events = (short)((flow->received < TOTAL ? POLLIN : 0) | (flow->sent < TOTAL ? POLLOUT : 0));
        if (!moved && !await(flow->link, events)) return false;
        if (flow->turn++ % 512 == 511) (void)usleep(2000);
    }
    return right;
}

TEST_EACH(bytes_of_drawn_sizes_go_both_ways, 3) {
    static struct flow flow;
    flow.link = meet();
    flow.way = other ? 0 : 1;
    bool right = exchange(&flow);
    if (!other) _exit(right ? 0 : 1);
    ck_assert_msg(right, "after %zu bytes sent and %zu received", flow.sent, flow.received);
    expect_end(flow.link);
    end_other(0);
    flow.link->ops->close(flow.link);
}

/* ---- waits ---- */

/* Answers each byte with the next one, after a while. */
static void answer_late(struct ls_link *link) {
    unsigned char byte;
    for (int i = 0; i < 20;) {
        ssize_t got = link->ops->receive(link, &byte, 1);
        if (got < 0 || (!got && !await(link, POLLIN))) _exit(1);
        if (got <= 0) continue;
        (void)usleep(500);
        byte++;
        if (link->ops->send(link, &(struct iovec){&byte, 1}, 1) != 1) _exit(2);
        i++;
    }
    _exit(0);
}

TEST(who_sleeps_is_woken_by_one_byte) {
    struct ls_link *link = meet();
    if (!other) answer_late(link);
    for (unsigned char i = 0; i < 20; i++) {
        unsigned char byte = i;
        ck_assert_int_eq(link->ops->send(link, &(struct iovec){&byte, 1}, 1), 1);
        while (!link->ops->readable(link)) ck_assert(await(link, POLLIN));
        ck_assert_int_eq(link->ops->receive(link, &byte, 1), 1);
        ck_assert_int_eq(byte, i + 1);
    }
    expect_end(link);
    end_other(0);
    link->ops->close(link);
}

static void send_in_two(struct ls_link *link) {
    static unsigned char bytes[2000];
    if (link->ops->send(link, &(struct iovec){bytes, 999}, 1) != 999) _exit(1);
    (void)usleep(200000);
    if (link->ops->send(link, &(struct iovec){bytes, 1001}, 1) != 1001) _exit(1);
    (void)usleep(200000);
    _exit(0);
}

TEST(a_low_water_mark_lets_sleep) {
    unsigned char bytes[2000];
    struct ls_link *link = meet();
    if (!other) send_in_two(link);
    link->ops->wake_at(link, 2000);
    ck_assert(await(link, POLLIN));
    ck_assert_int_eq(link->ops->receive(link, bytes, sizeof(bytes)), 2000);
    end_other(0);
    link->ops->close(link);
}

/* ---- ends ---- */

static void send_and_die(struct ls_link *link) {
    static unsigned char bytes[5000];
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = value_of(i, 0);
    (void)link->ops->send(link, &(struct iovec){bytes, sizeof(bytes)}, 1);
    (void)raise(SIGKILL);
}

/* The bytes that it had written are read first. The reader sleeps; where _i is 0, it only looks. */
TEST_EACH(a_killed_process_ends_its_link, 2) {
    unsigned char bytes[5000], more;
    size_t got = 0;
    ssize_t last = 0;
    struct ls_link *link = meet();
    if (!other) send_and_die(link);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
    while (got < sizeof(bytes)) {
        last = link->ops->receive(link, bytes + got, sizeof(bytes) - got);
        ck_assert_int_gt(last, 0);
        got += (size_t)last;
    }
    for (size_t i = 0; i < sizeof(bytes); i++) ck_assert_int_eq(bytes[i], value_of(i, 0));
    for (int look = 0; look < 1000 && !(last = link->ops->receive(link, &more, 1)); look++)
        if (_i) ck_assert(await(link, POLLIN));
    ck_assert_int_eq(last, -1);
    ck_assert_int_eq(link->ops->send(link, &(struct iovec){&more, 1}, 1), -1);
    link->ops->close(link);
}

static void die_full(struct ls_link *link) {
    (void)await(link, POLLIN);
    (void)raise(SIGKILL);
}

TEST(who_waits_for_room_hears_of_the_end) {
    static unsigned char bytes[1 << 20];
    struct ls_link *link = meet();
    if (!other) die_full(link);
    ssize_t sent;
    while ((sent = link->ops->send(link, &(struct iovec){bytes, sizeof(bytes)}, 1)) >= 0)
        if (!sent) ck_assert(await(link, POLLOUT));
    ck_assert(errno == ECONNRESET || errno == EPIPE);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
    link->ops->close(link);
}

/* ---- an other end that breaks the rules ---- */

static int descriptor_of(const unsigned char address[LS_SHM_LINK_ADDRESS]) {
    int32_t number;
    memcpy(&number, address + 12, sizeof(number));
    return number;
}

/* The counts of the ring in which this end reads lie 128 KiB and more behind its address: each 8 bytes are tried. */
TEST_EACH(a_wrong_count_ends_the_link, 4) {
    unsigned char address[LS_SHM_LINK_ADDRESS], bytes[64];
    struct ls_link *ends[2];
    local_pair(ends);
    struct ls_shm_link *mine = ls_shm_link_offer(address);
    int fd = descriptor_of(address);
    const uint64_t wrong = UINT64_MAX / 3 + (uint64_t)_i;
    const off_t header = 4096;
    off_t size = lseek(fd, 0, SEEK_END), ring = (size - header) / 2;
    ck_assert_int_gt(ring, 65536);
    ck_assert_int_eq(pwrite(fd, &wrong, sizeof(wrong), header + ring * (_i & 1) + (_i & 1 ? 0 : 64)), sizeof(wrong));
    struct ls_link *link = ls_shm_link_connect(mine, ends[0]);
    ssize_t moved = _i & 1 ? link->ops->receive(link, bytes, sizeof(bytes))
                           : link->ops->send(link, &(struct iovec){bytes, sizeof(bytes)}, 1);
    ck_assert_int_eq(moved, -1);
    ck_assert_int_eq(errno, EPROTO);
    link->ops->close(link);
    ends[1]->ops->close(ends[1]);
}

/* The number of a thread leads to its process, too. A sanitizer has one of its own. */
static bool is_own_thread(const unsigned char address[LS_SHM_LINK_ADDRESS]) {
    char path[64];
    int32_t number;
    memcpy(&number, address + 8, sizeof(number));
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d", number);
    return number != getpid() && access(path, F_OK) == 0;
}

/* A preface may bring any address. */
TEST(an_address_of_anything_else_is_refused) {
    unsigned char address[LS_SHM_LINK_ADDRESS], changed[LS_SHM_LINK_ADDRESS];
    struct ls_shm_link *offered = ls_shm_link_offer(address);
    ck_assert_ptr_nonnull(offered);
    for (unsigned bit = 0; bit < 8 * LS_SHM_LINK_ADDRESS; bit++) {
        memcpy(changed, address, sizeof(changed));
        changed[bit / 8] ^= (unsigned char)(1U << bit % 8);
        if (is_own_thread(changed)) continue;
        struct ls_shm_link *accepted = ls_shm_link_accept(changed);
        ck_assert_msg(!accepted, "bit %u of an address was changed, and it was accepted", bit);
    }
    memset(changed, 0, sizeof(changed));
    ck_assert_ptr_null(ls_shm_link_accept(changed));
    struct ls_shm_link *right = ls_shm_link_accept(address);
    ck_assert_ptr_nonnull(right);
    ls_shm_link_free(right);
    ls_shm_link_free(offered);
    ls_shm_link_free(NULL);
}

/* ---- memory that is none ---- */

/* Writes the address of memory of this process as a stranger would. */
static void forge(unsigned char address[LS_SHM_LINK_ADDRESS], int fd) {
    int32_t number = fd;
    memcpy(address + 12, &number, sizeof(number));
}

static int copy_memory(const unsigned char address[LS_SHM_LINK_ADDRESS], off_t size) {
    unsigned char nonce[16];
    int real = descriptor_of(address);
    int fd = memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(real, nonce, sizeof(nonce), 0), sizeof(nonce));
    ck_assert_int_eq(ftruncate(fd, size), 0);
    ck_assert_int_eq(pwrite(fd, nonce, sizeof(nonce), 0), sizeof(nonce));
    return fd;
}

TEST(memory_that_may_shrink_is_refused) {
    unsigned char address[LS_SHM_LINK_ADDRESS];
    struct ls_shm_link *offered = ls_shm_link_offer(address);
    int real = descriptor_of(address);
    off_t size = lseek(real, 0, SEEK_END);
    int unsealed = copy_memory(address, size), other_size = copy_memory(address, size + 4096);
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    forge(address, unsealed);
    ck_assert_ptr_null(ls_shm_link_accept(address));
    ck_assert_int_eq(fcntl(other_size, F_ADD_SEALS, seals), 0);
    forge(address, other_size);
    ck_assert_ptr_null(ls_shm_link_accept(address));
    ck_assert_int_eq(fcntl(unsealed, F_ADD_SEALS, seals), 0);
    forge(address, unsealed);
    struct ls_shm_link *accepted = ls_shm_link_accept(address);
    ck_assert_ptr_nonnull(accepted);
    ls_shm_link_free(accepted);
    ls_shm_link_free(offered);
    ck_assert_int_eq(close(unsealed) | close(other_size), 0);
}

struct shrinking {
    const unsigned char *address;
    off_t size;
    _Atomic int fd; /* -1: none yet */
    _Atomic bool stop;
};

/* Time and again memory of the right size loses all but its first page, and is sealed then. */
static void *shrink_again(void *context) {
    struct shrinking *shrinking = context;
    while (!atomic_load(&shrinking->stop)) {
        int fd = copy_memory(shrinking->address, shrinking->size);
        int before = atomic_exchange(&shrinking->fd, fd);
        if (before >= 0) (void)close(before);
        for (volatile int i = 0; i < 2000; i++) continue;
        ck_assert_int_eq(ftruncate(fd, 4096), 0);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
        (void)usleep(20);
    }
    return NULL;
}

/* A link whose memory is gone would be the end of who touches it. */
TEST(memory_that_shrinks_meanwhile_is_refused) {
    unsigned char address[LS_SHM_LINK_ADDRESS], forged[LS_SHM_LINK_ADDRESS];
    struct ls_shm_link *offered = ls_shm_link_offer(address);
    int real = descriptor_of(address);
    memcpy(forged, address, sizeof(forged));
    struct shrinking shrinking = {.address = address, .size = lseek(real, 0, SEEK_END), .fd = -1};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, shrink_again, &shrinking), 0);
    for (int64_t until = ls_now() + LS_SECOND / 2; ls_now() < until;) {
        forge(forged, atomic_load(&shrinking.fd));
        ck_assert_ptr_null(ls_shm_link_accept(forged));
    }
    atomic_store(&shrinking.stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(close(shrinking.fd), 0);
    ls_shm_link_free(offered);
}

/* The stream of its parent goes on behind it. */
TEST(a_child_of_fork_has_no_link) {
    unsigned char bytes[3] = {1, 2, 3};
    struct ls_link *link = meet();
    if (!other) answer_late(link);
    pid_t child = fork();
    if (!child) {
        bool sends = link->ops->send(link, &(struct iovec){bytes, 3}, 1) >= 0 || errno != EBADF;
        bool receives = link->ops->receive(link, bytes, 3) >= 0 || errno != EBADF;
        _exit(sends | receives);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    for (unsigned char i = 0; i < 20; i++) {
        bytes[0] = i;
        ck_assert_int_eq(link->ops->send(link, &(struct iovec){bytes, 1}, 1), 1);
        while (!link->ops->receive(link, bytes, 1)) ck_assert(await(link, POLLIN));
        ck_assert_int_eq(bytes[0], i + 1);
    }
    end_other(0);
    link->ops->close(link);
}

int main(void) {
    seed = first_seed();
    return RUN_TESTS("collective/shm_link", .seconds = 60);
}
