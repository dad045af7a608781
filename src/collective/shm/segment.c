/* Segments are sealed memfds, opened by other processes through /proc. The link in /proc is read first, so a device or
 * pipe of a process that only has the same number (another host, another namespace) is never opened. The seal and the
 * size that the kernel reports make sure that reading never runs past the end. The nonce proves that the segment is the
 * right one. */
#define _GNU_SOURCE
#include "collective/shm/segment.h"

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

/* Reserves addresses for a segment, without memory; NULL if none are free. Processors of AMD predict the first-level
 * cache way of a line from a few bits of its address. Lines with the same prediction evict each other, and adding
 * arrays element by element was seven times slower then. The bits that take part lie below WINDOW. A segment begins at
 * a multiple of it, so the offsets of the parts select them. */
static void *take_addresses(size_t size) {
    size_t all = size + WINDOW;
    char *base = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return NULL;
    size_t before = (WINDOW - (uintptr_t)base % WINDOW) % WINDOW;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), end = (before + size + page - 1) / page * page;
    if (before) (void)munmap(base, before);
    if (end < all) (void)munmap(base + end, all - end);
    return base + before;
}

static int map(int fd, size_t size, struct ls_segment *segment) {
    void *taken = take_addresses(HEADER + size);
    void *base = mmap(taken, HEADER + size, PROT_READ | PROT_WRITE, MAP_SHARED | (taken ? MAP_FIXED : 0), fd, 0);
    int error = base == MAP_FAILED ? errno : 0;
    if (error && taken) (void)munmap(taken, HEADER + size);
    if (!error) *segment = (struct ls_segment){(unsigned char *)base + HEADER, size};
    return error;
}

static int reserve_pages(int fd, size_t offset, size_t size) {
    int error;
    do error = fallocate(fd, 0, (off_t)offset, (off_t)size) ? errno : 0;
    while (error == EINTR);
    return error;
}

/* The pages are taken now: later there would be a SIGBUS where here is an error. */
static int reserve_parts(int fd, const struct ls_segment_part *parts, int count, size_t *size) {
    size_t end = 0;
    int error = reserve_pages(fd, 0, HEADER);
    for (int i = 0; i < count && !error; i++) {
        const struct ls_segment_part *part = &parts[i];
        if (part->offset > PTRDIFF_MAX - HEADER || part->size > PTRDIFF_MAX - HEADER - part->offset) return ENOMEM;
        if (part->size) error = reserve_pages(fd, HEADER + part->offset, part->size);
        if (part->offset + part->size > end) end = part->offset + part->size;
    }
    if (!error && fcntl(fd, F_ADD_SEALS, SEALS)) error = errno;
    *size = end;
    return error;
}

static int draw_nonce(unsigned char nonce[16]) {
    return getrandom(nonce, 16, 0) == 16 ? 0 : errno ? errno : EIO;
}

int ls_segment_make(const struct ls_segment_part *parts, int count, struct ls_segment *segment,
                    struct ls_segment_address *address) {
    struct ls_segment_address made = {.pid = (int32_t)getpid()};
    size_t size = 0;
    made.fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made.fd < 0) return errno;
    int error = reserve_parts(made.fd, parts, count, &size);
    made.size = size;
    if (!error) error = draw_nonce(made.nonce);
    if (!error) error = map(made.fd, size, segment);
    if (error) {
        (void)close(made.fd);
        return error;
    }
    memcpy(segment->memory - HEADER, made.nonce, sizeof(made.nonce));
    *address = made;
    return 0;
}

static bool leads_to_memfd(const char *path) {
    static const char expected[] = "/memfd:" NAME;
    char target[64];
    ssize_t length = readlink(path, target, sizeof(target));
    return length >= (ssize_t)sizeof(expected) - 1 && !memcmp(target, expected, sizeof(expected) - 1);
}

/* The size counts only behind the seals: before them its owner may still change it. */
static int check_file(int fd, const struct ls_segment_address *address) {
    struct stat stat;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &stat)) return errno;
    bool fits = S_ISREG(stat.st_mode) && address->size <= PTRDIFF_MAX - HEADER &&
                stat.st_size == (off_t)(HEADER + address->size) && seals >= 0 && (seals & SEALS) == SEALS;
    return fits ? 0 : LS_SEGMENT_ELSEWHERE;
}

static int map_checked(int fd, const struct ls_segment_address *address, struct ls_segment *segment) {
    unsigned char nonce[sizeof(address->nonce)];
    int error = check_file(fd, address);
    if (error) return error;
    if (pread(fd, nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce)) return errno ? errno : EIO;
    if (memcmp(nonce, address->nonce, sizeof(nonce)) != 0) return LS_SEGMENT_ELSEWHERE;
    return map(fd, (size_t)address->size, segment);
}

int ls_segment_open(const struct ls_segment_address *address, size_t size, struct ls_segment *segment) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", address->pid, address->fd);
    if (address->size != size) return LS_SEGMENT_ELSEWHERE;
    errno = 0;
    if (!leads_to_memfd(path)) return errno == EACCES || errno == EPERM ? errno : LS_SEGMENT_ELSEWHERE;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return errno;
    int error = map_checked(fd, address, segment);
    (void)close(fd);
    return error;
}

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif

/* A kernel without the call leaves the pages to be mapped later. */
void ls_segment_populate(const struct ls_segment *segment, const struct ls_segment_part *part) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (part->size + page - 1) / page * page;
    if (size) (void)madvise(segment->memory + part->offset, size, MADV_POPULATE_WRITE);
}

/* A compare-and-exchange writes, whatever it finds. */
static void touch_byte(unsigned char *byte) {
    unsigned char expected = 0;
    (void)__atomic_compare_exchange_n((volatile unsigned char *)byte, &expected, 0, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED);
}

void ls_segment_touch(unsigned char *bytes, size_t size) {
    unsigned char *end = bytes + size;
    for (unsigned char *at = bytes; at < end; at += HEADER - (uintptr_t)at % HEADER) touch_byte(at);
}

void ls_segment_hide(struct ls_segment_address *address) {
    if (address->fd >= 0) (void)close(address->fd);
    address->fd = -1;
}

void ls_segment_unmap(struct ls_segment *segment) {
    if (segment->memory) (void)munmap(segment->memory - HEADER, HEADER + segment->size);
    segment->memory = NULL;
}
