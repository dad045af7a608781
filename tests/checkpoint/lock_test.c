/* The lock of a checkpoint folder: held, released, left by a killed process, taken over from a frozen one, and on a
 * file system that knows none. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/fixture.h"
#include "checkpoint/folder_lock.h"
#include "harness.h"

static int errno_then; /* what flock fails with; 0: it works */

int __real_flock(int file, int operation);
int __wrap_flock(int file, int operation);
int __wrap_flock(int file, int operation) {
    errno = errno_then;
    return errno_then ? -1 : __real_flock(file, operation);
}

static int warned;
static void hear(void *context, ls_log_level level, const char *line) {
    (void)context;
    warned += level == LS_LOG_WARNING && strstr(line, folder_path()) && strstr(line, "no locks");
}

static ls_status take(uint64_t job, struct ls_folder_lock **lock) {
    const struct ls_log log = {.sink = hear, .level = LS_LOG_WARNING};
    return ls_folder_lock_take(folder_path(), job, &log, lock);
}

/* A process that holds the lock for the job, until it is killed. */
static pid_t holder_of(uint64_t job) {
    int ready[2];
    char byte;
    struct ls_folder_lock *lock;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        (void)close(ready[0]);
        (void)!write(ready[1], take(job, &lock) ? "" : "!", 1);
        for (;;) (void)pause();
    }
    (void)close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(byte, '!');
    (void)close(ready[0]);
    return child;
}

static void end(pid_t child) {
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

TEST(another_job_is_kept_out) {
    char who[64];
    struct ls_folder_lock *lock = NULL;
    pid_t child = holder_of(1);
    (void)snprintf(who, sizeof(who), "process %d on ", (int)child);
    ck_assert_int_eq(take(2, &lock), LS_FAILED_PRECONDITION);
    ck_assert_msg(strstr(ls_error(), folder_path()) && strstr(ls_error(), who), "%s", ls_error());
    ck_assert_ptr_null(lock);
    end(child);
    ck_assert_int_eq(count_files(LS_FOLDER_LOCK), 1); /* who is killed leaves the file, and not the lock */
    assert_ok(take(2, &lock));
    ck_assert(!ls_folder_lock_displaced(lock));
    ls_folder_lock_free(lock);
    ck_assert_int_eq(count_files(""), 0);
}

/* A record that is cut short, or none at all: kept out all the same. */
TEST(a_holder_without_a_name) {
    struct ls_folder_lock *lock = NULL;
    pid_t child = holder_of(1);
    write_bytes(LS_FOLDER_LOCK, "pid 12 o", 8);
    ck_assert_int_eq(take(2, &lock), LS_FAILED_PRECONDITION);
    ck_assert_msg(strstr(ls_error(), folder_path()) && strstr(ls_error(), "another job"), "%s", ls_error());
    end(child);
}

/* A frozen process that wakes changes nothing. */
TEST(the_same_job_takes_it_over) {
    struct ls_folder_lock *frozen = NULL, *lock = NULL, *other = NULL;
    assert_ok(take(1, &frozen));
    assert_ok(ls_checkpoint_folder_save(folder_path(), frozen, checkpoint_of(4), 1));
    assert_ok(take(1, &lock));
    ck_assert(!ls_folder_lock_displaced(lock));
    ck_assert(ls_folder_lock_displaced(frozen));
    ck_assert_int_eq(unlink(path_in(LS_FOLDER_LOCK)), 0); /* by some cleaner: no harm, and not for long */
    ck_assert(!ls_folder_lock_displaced(lock));
    ls_folder_lock_free(lock);
    assert_ok(take(1, &lock));
    assert_ok(ls_checkpoint_folder_save(folder_path(), lock, checkpoint_of(5), 1));
    ck_assert_int_eq(ls_checkpoint_folder_save(folder_path(), frozen, checkpoint_of(6), 1), LS_FAILED_PRECONDITION);
    ck_assert_msg(strstr(ls_error(), folder_path()) && strstr(ls_error(), "taken"), "%s", ls_error());
    ck_assert_int_eq(load_step(), 5);
    ls_folder_lock_free(frozen);
    ck_assert(!ls_folder_lock_displaced(lock));
    ck_assert_int_eq(take(2, &other), LS_FAILED_PRECONDITION);
    ls_folder_lock_free(lock);
    assert_ok(take(2, &other));
    ls_folder_lock_free(other);
}

/* One who looks takes no part, and keeps nobody out for longer than a moment. */
TEST(who_looks_sees_the_holder) {
    struct ls_folder_lock *lock = NULL;
    ck_assert_int_eq(ls_folder_lock_look("/nowhere/at/all"), LS_FOLDER_FREE);
    ck_assert_int_eq(ls_folder_lock_look(folder_path()), LS_FOLDER_FREE);
    pid_t child = holder_of(1);
    ck_assert_int_eq(ls_folder_lock_look(folder_path()), LS_FOLDER_HELD);
    end(child);
    ck_assert_int_eq(ls_folder_lock_look(folder_path()), LS_FOLDER_LEFT);
    assert_ok(take(2, &lock));
    ck_assert_int_eq(ls_folder_lock_look(folder_path()), LS_FOLDER_HELD);
    ls_folder_lock_free(lock);
    ck_assert_int_eq(ls_folder_lock_look(folder_path()), LS_FOLDER_FREE);
}

TEST(who_looks_keeps_nobody_out) {
    struct ls_folder_lock *lock = NULL;
    pid_t child = fork();
    if (!child)
        for (;;) (void)ls_folder_lock_look(folder_path());
    for (int i = 0; i < 50; i++) {
        assert_ok(take(1, &lock));
        ls_folder_lock_free(lock);
    }
    end(child);
}

TEST_EACH(a_file_system_without_locks, 3) {
    static const int errors[] = {ENOLCK, EOPNOTSUPP, ENOSYS};
    struct ls_folder_lock *lock = NULL;
    warned = 0;
    errno_then = errors[_i];
    assert_ok(take(1, &lock));
    errno_then = 0;
    ck_assert_int_eq(warned, 1);
    assert_ok(ls_checkpoint_folder_save(folder_path(), lock, checkpoint_of(1), 1));
    ls_folder_lock_free(lock);
    ck_assert_int_eq(count_files(LS_FOLDER_LOCK), 0);
}

/* Processes that take and release it all the time: never two at once. */
TEST(one_at_a_time) {
    enum { PROCESSES = 3, ROUNDS = 300 };
    struct ls_folder_lock *lock = NULL;
    for (int p = 0; p < PROCESSES; p++) {
        if (fork()) continue;
        for (int i = 0; i < ROUNDS;) {
            if (take((uint64_t)p + 1, &lock)) continue;
            int file = open(path_in("alone"), O_WRONLY | O_CREAT | O_EXCL, 0600);
            if (file < 0 || close(file) || unlink(path_in("alone"))) _exit(1);
            ls_folder_lock_free(lock);
            i++;
        }
        _exit(0);
    }
    for (int p = 0, status; p < PROCESSES; p++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ck_assert_int_eq(count_files(""), 0);
}

TEST(folders_that_will_not_do) {
    struct ls_folder_lock *lock = NULL;
    const struct ls_log log = {.sink = hear, .level = LS_LOG_WARNING};
    assert_fails(ls_folder_lock_take("/nowhere/at/all", 1, &log, &lock), LS_NOT_FOUND, "/nowhere/at/all");
    ck_assert_int_ne(ls_folder_lock_take("/proc", 1, &log, &lock), LS_OK);
    ck_assert_ptr_null(lock);
}

TESTS("lock", .seconds = 120, .before = folder_make, .after = folder_remove)
