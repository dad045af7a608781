/* Segments are sealed memfds, opened by others through /proc. The link in /proc is read first, so that no device or
 * pipe of a process that only has the same number (another host, another namespace) is ever opened; the seal and the
 * size that the kernel tells make sure that reading never runs past the end; the nonce tells it is the right one. */
#define _GNU_SOURCE
#include "collective/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME  "lockstep"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
enum { HEADER = 4096 }; /* bytes in front of the memory, with the nonce */
#define WINDOW ((size_t)256 << 20)
#define STRIDE ((size_t)2 << 20)

/* Takes addresses for a segment, without memory; NULL: none are free. Processors of AMD guess from a few bits of an
 * address where in the first-level cache a line is; lines for which the guess is the same throw each other out, and
 * adding arrays element by element was seven times slower then. The bits that take part lie below WINDOW, so a place is
 * told by where in its window a segment begins. (A large page would still fit.) */
static void *take_addresses(size_t size, int place) {
    size_t shift = (size_t)place % (WINDOW / STRIDE) * STRIDE, all = size + shift + WINDOW;
    char *base = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return NULL;
    size_t before = (WINDOW - (uintptr_t)base % WINDOW) % WINDOW + shift;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), end = (before + size + page - 1) / page * page;
    if (before) (void)munmap(base, before);
    if (end < all) (void)munmap(base + end, all - end);
    return base + before;
}

static int map(int fd, size_t size, int place, struct ls_segment *segment) {
    void *taken = take_addresses(HEADER + size, place);
    void *base =
        mmap(taken, HEADER + size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | (taken ? MAP_FIXED : 0), fd, 0);
    int error = base == MAP_FAILED ? errno : 0;
    if (error && taken) (void)munmap(taken, HEADER + size);
    if (!error) *segment = (struct ls_segment){(unsigned char *)base + HEADER, size};
    return error;
}

/* The pages are taken now: later there would be a SIGBUS where here is an error. */
static int reserve(int fd, size_t size) {
    int error;
    if (size > PTRDIFF_MAX - HEADER) return ENOMEM;
    do error = fallocate(fd, 0, 0, (off_t)(HEADER + size)) ? errno : 0;
    while (error == EINTR);
    if (!error && fcntl(fd, F_ADD_SEALS, SEALS)) error = errno;
    return error;
}

static int draw_nonce(unsigned char nonce[16]) {
    return getrandom(nonce, 16, 0) == 16 ? 0 : errno ? errno : EIO;
}

int ls_segment_make(size_t size, int place, struct ls_segment *segment, struct ls_segment_address *address) {
    struct ls_segment_address made = {.size = size, .pid = (int32_t)getpid()};
    made.fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made.fd < 0) return errno;
    int error = reserve(made.fd, size);
    if (!error) error = draw_nonce(made.nonce);
    if (!error) error = map(made.fd, size, place, segment);
    if (error) {
        (void)close(made.fd);
        return error;
    }
    memcpy(segment->memory - HEADER, made.nonce, sizeof(made.nonce));
    *address = made;
    return 0;
}

static bool leads_to_segment(const char *path) {
    static const char expected[] = "/memfd:" NAME;
    char target[64];
    ssize_t length = readlink(path, target, sizeof(target));
    return length >= (ssize_t)sizeof(expected) - 1 && !memcmp(target, expected, sizeof(expected) - 1);
}

static int check(int fd, const struct ls_segment_address *address) {
    struct stat stat;
    if (fstat(fd, &stat)) return errno;
    int seals = fcntl(fd, F_GET_SEALS);
    bool fits = S_ISREG(stat.st_mode) && address->size <= PTRDIFF_MAX - HEADER &&
                stat.st_size == (off_t)(HEADER + address->size) && seals >= 0 && (seals & SEALS) == SEALS;
    return fits ? 0 : LS_SEGMENT_ELSEWHERE;
}

static int map_checked(int fd, const struct ls_segment_address *address, int place, struct ls_segment *segment) {
    unsigned char nonce[sizeof(address->nonce)];
    int error = check(fd, address);
    if (error) return error;
    if (pread(fd, nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce)) return errno ? errno : EIO;
    if (memcmp(nonce, address->nonce, sizeof(nonce)) != 0) return LS_SEGMENT_ELSEWHERE;
    return map(fd, (size_t)address->size, place, segment);
}

int ls_segment_open(const struct ls_segment_address *address, int place, struct ls_segment *segment) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", address->pid, address->fd);
    errno = 0;
    if (!leads_to_segment(path)) return errno == EACCES || errno == EPERM ? errno : LS_SEGMENT_ELSEWHERE;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return errno;
    int error = map_checked(fd, address, place, segment);
    (void)close(fd);
    return error;
}

void ls_segment_hide(struct ls_segment_address *address) {
    if (address->fd >= 0) (void)close(address->fd);
    address->fd = -1;
}

void ls_segment_unmap(struct ls_segment *segment) {
    if (segment->memory) (void)munmap(segment->memory - HEADER, HEADER + segment->size);
    segment->memory = NULL;
}
