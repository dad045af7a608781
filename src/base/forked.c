/* The sockets that a child of fork closes: a table of inodes by descriptor, which is one of the library's globals, for
 * a handler of pthread_atfork has no argument. The handler calls what a signal handler may. A descriptor above the
 * table's end stays open in the child: the others then learn of this process's end by its silence. */
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_FILES 65536

static _Atomic uint64_t inodes[MOST_FILES]; /* 0: none */
static _Atomic int end;                     /* of the descriptors that the table has */
static _Atomic unsigned forks;              /* that have led to this process */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t inode_of(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? (uint64_t)status.st_ino : 0;
}

static void close_in_child(void) {
    int count = atomic_exchange(&end, 0);
    atomic_fetch_add(&forks, 1);
    for (int fd = 0; fd < count; fd++) {
        uint64_t inode = atomic_exchange(&inodes[fd], 0);
        if (inode && inode_of(fd) == inode) (void)close(fd);
    }
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, close_in_child);
}

void ls_forked_closes(int fd) {
    if (fd < 0 || fd >= MOST_FILES) return;
    (void)pthread_once(&once, watch_forks);
    atomic_store(&inodes[fd], inode_of(fd));
    int seen = atomic_load(&end);
    while (seen <= fd && !atomic_compare_exchange_weak(&end, &seen, fd + 1)) continue;
}

unsigned ls_forked_times(void) {
    (void)pthread_once(&once, watch_forks);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
