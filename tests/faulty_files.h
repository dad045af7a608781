/* Reading that fails, as a parameter: the k-th call that looks for a file or reads one fails with an error, or the file
 * ends in it. The functions stand in front of the C library's, for the libraries that read too (zlib). A program
 * defines _GNU_SOURCE and includes this once. */
#pragma once
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    atomic_long countdown; /* the so-manieth call from now fails; 0: none */
    int error;             /* with this errno; 0: it reads half of what it should, and the file ends there */
    atomic_bool ended;
} faulty_files;

static inline void faulty_files_begin(long call, int error) {
    faulty_files.error = error;
    faulty_files.ended = false;
    faulty_files.countdown = call;
}

/* True if there were so many calls. */
static inline bool faulty_files_end(void) {
    bool reached = faulty_files.countdown <= 0;
    faulty_files.countdown = 0;
    faulty_files.ended = false;
    return reached;
}

static bool faulty_files_turn(void) {
    long before = atomic_load(&faulty_files.countdown);
    while (before > 0 && !atomic_compare_exchange_weak(&faulty_files.countdown, &before, before - 1)) continue;
    return before == 1;
}

static bool faulty_files_fails(void) {
    if (!faulty_files.error || !faulty_files_turn()) return false;
    errno = faulty_files.error;
    return true;
}

/* So many of size bytes may be read; -1: the call fails. */
static ssize_t faulty_files_most(size_t size) {
    if (faulty_files_fails()) return -1;
    if (faulty_files.ended) return 0;
    if (faulty_files.error || !faulty_files_turn()) return (ssize_t)size;
    faulty_files.ended = true;
    return (ssize_t)(size / 2);
}

#define FAULTY_FILES_REAL(real, name)                                                                                  \
    if (!(real)) *(void **)&(real) = dlsym(RTLD_NEXT, name)

/* The names are those of 64-bit offsets, as all is compiled. */
#define FAULTY_FILES_CALL(result, name, symbol, parameters, arguments, failure)                                        \
    result name parameters {                                                                                           \
        static result(*real) parameters;                                                                               \
        FAULTY_FILES_REAL(real, symbol);                                                                               \
        return faulty_files_fails() ? (failure) : real arguments;                                                      \
    }

FAULTY_FILES_CALL(int, stat, "stat64", (const char *path, struct stat *info), (path, info), -1)
FAULTY_FILES_CALL(int, fstat, "fstat64", (int fd, struct stat *info), (fd, info), -1)
FAULTY_FILES_CALL(int, fstatat, "fstatat64", (int folder, const char *path, struct stat *info, int flags),
                  (folder, path, info, flags), -1)
FAULTY_FILES_CALL(DIR *, opendir, "opendir", (const char *path), (path), NULL)
FAULTY_FILES_CALL(struct dirent *, readdir, "readdir64", (DIR * folder), (folder), NULL)
FAULTY_FILES_CALL(int, scandir, "scandir64",
                  (const char *path, struct dirent ***entries, int (*wanted)(const struct dirent *),
                   int (*order)(const struct dirent **, const struct dirent **)),
                  (path, entries, wanted, order), -1)

int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    FAULTY_FILES_REAL(real, "open64");
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return faulty_files_fails() ? -1 : real(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    static int (*real)(int, const char *, int, ...);
    FAULTY_FILES_REAL(real, "openat64");
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return faulty_files_fails() ? -1 : real(folder, path, flags, mode);
}

ssize_t read(int fd, void *bytes, size_t size) {
    static ssize_t (*real)(int, void *, size_t);
    FAULTY_FILES_REAL(real, "read");
    ssize_t most = faulty_files_most(size);
    return most <= 0 && size ? most : real(fd, bytes, (size_t)most);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    FAULTY_FILES_REAL(real, "pread64");
    ssize_t most = faulty_files_most(size);
    return most <= 0 && size ? most : real(fd, bytes, (size_t)most, offset);
}
