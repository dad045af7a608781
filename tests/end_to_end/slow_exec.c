/* Preloaded: execvp takes SLOW_EXEC seconds, as where a program lies on a file system that does not answer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int execvp(const char *file, char *const argv[]) {
    union {
        void *symbol;
        int (*call)(const char *, char *const[]);
    } next = {.symbol = dlsym(RTLD_NEXT, "execvp")};
    const char *seconds = getenv("SLOW_EXEC");
    if (seconds) (void)sleep((unsigned)atoi(seconds));
    return next.call(file, argv);
}
