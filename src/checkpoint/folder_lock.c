/* A lock is the file under its name. A process that takes the lock over puts another file there. A process that opened
 * the file before looks whether it is still the same one. */
#include "checkpoint/folder_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/new.h"
#include "base/read_file.h"
#include "checkpoint/file.h"

#define ATTEMPTS 100 /* at a lock that others take and release meanwhile */
#define LOOKS    20  /* of these at one that is held: who only looks holds it for a moment */
#define PAUSE    (5 * LS_MILLISECOND)
#define HOST     65

struct ls_folder_lock {
    int folder, file;
    bool taken;
};

struct holder {
    uint64_t job; /* 0: not known */
    int pid;
    char host[HOST];
};

static ls_status read_holder(int file, const char *folder, struct holder *holder) {
    char text[160] = "";
    unsigned long long job = 0;
    *holder = (struct holder){0};
    if (pread(file, text, sizeof(text) - 1, 0) < 0) return ls_read_file_fail("read the lock of", folder);
    if (sscanf(text, "pid %d on %64s job %llx", &holder->pid, holder->host, &job) == 3) holder->job = job;
    return LS_OK;
}

/* Only for who is kept out: what cannot be written is no error. */
static void write_holder(int file, uint64_t job) {
    char text[160], host[HOST] = "";
    if (gethostname(host, sizeof(host) - 1) || !*host) (void)snprintf(host, sizeof(host), "localhost");
    int size = snprintf(text, sizeof(text), "pid %d on %s job %016llx\n", (int)getpid(), host, (unsigned long long)job);
    if (ftruncate(file, 0) || pwrite(file, text, (size_t)size, 0) != size) return;
}

enum place { OURS, ANOTHERS, NOBODYS, NOT_KNOWN /* errno has the cause */ };

/* Tells whose file has the name. A lock on a file whose name is gone, or is another file's, keeps nobody out: the next
 * process would open another inode. So device and inode of the open file and of the name are compared after the lock
 * was taken. */
static enum place find_owner(const struct ls_folder_lock *lock) {
    struct stat own, there;
    if (fstatat(lock->folder, LS_FOLDER_LOCK, &there, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? NOBODYS : NOT_KNOWN;
    if (fstat(lock->file, &own)) return errno == ESTALE ? ANOTHERS : NOT_KNOWN; /* NFS has removed it */
    return own.st_dev == there.st_dev && own.st_ino == there.st_ino ? OURS : ANOTHERS;
}

bool ls_folder_lock_displaced(const struct ls_folder_lock *lock) {
    return lock && find_owner(lock) == ANOTHERS;
}

bool ls_folder_lock_stands(const struct ls_folder_lock *lock) {
    enum place place = find_owner(lock);
    return place == OURS || place == NOT_KNOWN;
}

static void close_lock(struct ls_folder_lock *lock) {
    if (lock->file >= 0) (void)close(lock->file);
    lock->file = -1;
}

/* Somebody holds the file that is open. LS_OK: it has been put aside. */
static ls_status displace(struct ls_folder_lock *lock, const char *folder, uint64_t job) {
    struct holder holder;
    ls_status status = read_holder(lock->file, folder, &holder);
    if (status) return status;
    if (holder.job == job) {
        if (find_owner(lock) == OURS) (void)unlinkat(lock->folder, LS_FOLDER_LOCK, 0);
        return LS_OK;
    }
    if (!holder.job)
        return ls_fail(LS_FAILED_PRECONDITION, "checkpoint folder '%s' is in use by another job: take another folder",
                       folder);
    return ls_fail(
        LS_FAILED_PRECONDITION,
        "checkpoint folder '%s' is in use by another job, process %d on %s: take another folder, or wait for "
        "its end",
        folder, holder.pid, holder.host);
}

/* One attempt. last: somebody who holds it is no passer-by. */
static ls_status attempt(struct ls_folder_lock *lock, const char *folder, uint64_t job, const struct ls_log *log,
                         bool last) {
    lock->file = openat(lock->folder, LS_FOLDER_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock->file < 0) return ls_read_file_fail("write to checkpoint folder", folder);
    if (flock(lock->file, LOCK_EX | LOCK_NB) == 0) {
        enum place place = find_owner(lock);
        lock->taken = place == OURS; /* who releases it removes it */
        return place == NOT_KNOWN ? ls_read_file_fail("read the lock of", folder) : LS_OK;
    }
    if (errno == EINTR) return LS_OK;
    if (errno == EWOULDBLOCK) {
        if (last) return displace(lock, folder, job);
        (void)poll(NULL, 0, ls_poll_timeout(ls_now() + PAUSE, 1000));
        return LS_OK;
    }
    ls_log_warning(log, "checkpoint folder '%s' takes no locks (%s): see to it that no other job uses it", folder,
                   strerror(errno));
    lock->taken = true;
    return LS_OK;
}

static ls_status take_lock(struct ls_folder_lock *lock, const char *folder, uint64_t job, const struct ls_log *log) {
    if (mkdir(folder, 0777) && errno != EEXIST) return ls_read_file_fail("make checkpoint folder", folder);
    lock->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock->folder < 0) return ls_read_file_fail("open checkpoint folder", folder);
    for (int i = 0; i < ATTEMPTS; i++) {
        ls_status status = attempt(lock, folder, job, log, i >= LOOKS);
        if (status) return status;
        if (lock->taken) {
            write_holder(lock->file, job);
            return LS_OK;
        }
        close_lock(lock);
    }
    return ls_fail(LS_FAILED_PRECONDITION, "checkpoint folder '%s': others take its lock again and again", folder);
}

ls_status ls_folder_lock_take(const char *folder, uint64_t job, const struct ls_log *log,
                              struct ls_folder_lock **lock) {
    LS_NEW(struct ls_folder_lock, made, "the lock of a folder");
    *made = (struct ls_folder_lock){-1, -1, false};
    ls_status status = take_lock(made, folder, job, log);
    if (!status) {
        *lock = made;
        return LS_OK;
    }
    close_lock(made);
    if (made->folder >= 0) (void)close(made->folder);
    ls_free(made);
    return status;
}

/* A lock for readers is refused while somebody holds the writers' one, and is let go at once. */
enum ls_folder_holder ls_folder_lock_look(const char *folder) {
    int place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place < 0) return LS_FOLDER_FREE;
    int file = openat(place, LS_FOLDER_LOCK, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    (void)close(place);
    if (file < 0) return errno == ENOENT ? LS_FOLDER_FREE : LS_FOLDER_HELD;
    bool left = !flock(file, LOCK_SH | LOCK_NB);
    (void)close(file);
    return left ? LS_FOLDER_LEFT : LS_FOLDER_HELD;
}

void ls_folder_lock_free(struct ls_folder_lock *lock) {
    if (!lock) return;
    if (find_owner(lock) == OURS) (void)unlinkat(lock->folder, LS_FOLDER_LOCK, 0);
    close_lock(lock);
    (void)close(lock->folder);
    ls_free(lock);
}
