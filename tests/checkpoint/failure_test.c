/* Failure as a parameter: the k-th system call of a write fails, or is the last that the process makes, for every k;
 * the k-th allocation fails; and a process that writes one checkpoint after the other is killed at random moments. A
 * whole checkpoint is always there. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/fixture.h"
#include "harness.h"

static long countdown;    /* the so-manieth call from now is the one; 0: none */
static int errno_then;    /* what it fails with; 0: the process is killed in it */
static size_t most_bytes; /* that a write takes; 0: all */
static long allocations;  /* as countdown */

/* True for the call that is to fail. */
static bool denied(void) {
    if (countdown <= 0 || --countdown > 0) return false;
    if (!errno_then) (void)raise(SIGKILL);
    errno = errno_then;
    return true;
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size) {
    if (denied()) return -1;
    return __real_write(fd, data, most_bytes && size > most_bytes ? most_bytes : size);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    return denied() ? -1 : __real_fsync(fd);
}

int __real_rename(const char *old, const char *new);
int __wrap_rename(const char *old, const char *new);
int __wrap_rename(const char *old, const char *new) {
    return denied() ? -1 : __real_rename(old, new);
}

int __real_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags) {
    return denied() ? -1 : __real_unlinkat(folder, name, flags);
}

int __real_openat64(int folder, const char *name, int flags, ...);
int __wrap_openat64(int folder, const char *name, int flags, ...);
int __wrap_openat64(int folder, const char *name, int flags, ...) {
    return denied() ? -1 : __real_openat64(folder, name, flags, 0600);
}

int __real_open64(const char *name, int flags, ...);
int __wrap_open64(const char *name, int flags, ...);
int __wrap_open64(const char *name, int flags, ...) {
    return denied() ? -1 : __real_open64(name, flags, 0600);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
    return allocations > 0 && --allocations == 0 ? NULL : __real_calloc(count, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return allocations > 0 && --allocations == 0 ? NULL : __real_aligned_alloc(alignment, size);
}

static const int errors[] = {ENOSPC, EROFS, EIO, EDQUOT};

TEST_EACH(every_call_may_fail, COUNT_OF(errors)) {
    int failures = 0;
    for (long k = 1;; k++) {
        assert_ok(ls_checkpoint_folder_clear(folder_path()));
        assert_ok(save_step(1, 1));
        countdown = k;
        errno_then = errors[_i];
        ls_status status = save_step(2, 1);
        bool reached = countdown == 0;
        countdown = 0;
        int64_t step = load_step();
        if (!reached) {
            assert_ok(status);
            ck_assert_int_eq(step, 2);
            break;
        }
        ck_assert_int_ne(status, LS_OK);
        ck_assert_msg(strstr(ls_error(), folder_path()) && strstr(ls_error(), strerror(errors[_i])), "call %ld: %s", k,
                      ls_error());
        ck_assert_int_ge(step, 1);
        ck_assert_int_eq(count_files("."), 0);
        failures++;
    }
    ck_assert_int_ge(failures, 8);
    ck_assert_int_eq(take_warnings(NULL), 0);
}

/* A checkpoint that is there is whole, after whichever call the process is killed. */
TEST(every_call_may_be_the_last) {
    int deaths = 0;
    for (long k = 1;; k++, deaths++) {
        int status;
        assert_ok(ls_checkpoint_folder_clear(folder_path()));
        assert_ok(save_step(1, 1));
        pid_t child = fork();
        if (!child) {
            errno_then = 0;
            countdown = k;
            _exit(save_step(2, 1) ? 1 : 0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        int64_t step = load_step();
        if (WIFEXITED(status)) {
            ck_assert_int_eq(WEXITSTATUS(status), 0);
            ck_assert_int_eq(step, 2);
            break;
        }
        ck_assert_int_ge(step, 1);
        assert_ok(ls_checkpoint_folder_check(folder_path()));
        ck_assert_int_eq(count_files("."), 0);
    }
    ck_assert_int_ge(deaths, 8);
    ck_assert_int_eq(take_warnings(NULL), 0);
}

TEST(short_writes_are_continued) {
    size_t size, other;
    assert_ok(save_step(1, 1));
    uint8_t *whole = read_bytes("checkpoint-000000000001.safetensors", &size);
    most_bytes = 7;
    assert_ok(save_step(1, 1));
    countdown = 3;
    errno_then = EINTR;
    assert_ok(save_step(1, 1));
    most_bytes = 0;
    uint8_t *pieces = read_bytes("checkpoint-000000000001.safetensors", &other);
    ck_assert_uint_eq(size, other);
    ck_assert_mem_eq(whole, pieces, size);
    free(whole);
    free(pieces);
}

static ls_status load_first(void) {
    int64_t step;
    ls_status status = try_load(&step);
    if (!status) ck_assert_int_eq(step, 1);
    return status;
}
static ls_status save_second(void) {
    return save_step(2, 2);
}

/* Too little memory is no damage: it is an error, and no older checkpoint is taken for it. */
TEST_EACH(every_allocation_may_fail, 2) {
    ls_status (*const action)(void) = _i ? load_first : save_second;
    int failures = 0;
    assert_ok(save_step(1, 2));
    for (long k = 1;; k++, failures++) {
        allocations = k;
        ls_status status = action();
        bool reached = allocations == 0;
        allocations = 0;
        if (!reached) {
            assert_ok(status);
            break;
        }
        ck_assert_msg(status == LS_RESOURCE_EXHAUSTED, "allocation %ld: %s", k, ls_error());
    }
    ck_assert_int_ge(failures, 2);
    ck_assert_int_eq(take_warnings(NULL), 0);
}

/* Says that it is there, writes checkpoints for ever and says each step when it is on the disk. */
static _Noreturn void write_for_ever(int64_t step, int said) {
    for (step--; __real_write(said, &step, sizeof(step)) == sizeof(step); step++)
        if (save_step(step + 1, 2)) break;
    _exit(1);
}

/* Returns the last step that was on the disk for sure. */
static int64_t write_until_killed(int64_t first, long microseconds) {
    int pipes[2], status;
    int64_t said, next;
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (!child) write_for_ever(first, pipes[1]);
    (void)close(pipes[1]);
    ck_assert_int_eq(read(pipes[0], &said, sizeof(said)), sizeof(said));
    (void)nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status), "the writer ended by itself: %d", status);
    while (read(pipes[0], &next, sizeof(next)) == sizeof(next)) said = next;
    (void)close(pipes[0]);
    return said;
}

TEST(killed_at_random_moments) {
    const int rounds = getenv("LOCKSTEP_TEST_FULL") ? 500 : 30;
    int64_t step = 0;
    int unfinished = 0;
    unsigned random = 12345;
    for (int round = 0; round < rounds; round++) {
        random = random * 1103515245U + 12345U;
        int64_t said = write_until_killed(step + 1, 1000 + (random >> 8) % 15000);
        int64_t found = load_step();
        ck_assert_msg(found == said || found == said + 1, "round %d: %lld was on the disk, %lld is there", round,
                      (long long)said, (long long)found);
        unfinished += count_files(".");
        assert_ok(ls_checkpoint_folder_check(folder_path()));
        step = found;
    }
    for (int i = 1; i <= 2; i++) assert_ok(save_step(step + i, 2));
    ck_assert_int_eq(count_files(""), 2);
    ck_assert_int_eq(take_warnings(NULL), 0);
    (void)printf("# %d times killed, %d of them inside a write, %lld checkpoints\n", rounds, unfinished,
                 (long long)step);
}

TESTS("failure", .seconds = 240, .before = folder_make, .after = folder_remove)
