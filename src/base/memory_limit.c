/* A cgroup's limit counts for all below it. /proc/self/cgroup says where the process is: a line "0::/path" of version
 * 2, "4:memory:/path" of version 1. In a container the path may be that of the host, which is not there: then the top
 * of what is mounted is the container's own. */
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_PATH 4096

enum { OF_MACHINE, OF_CGROUP, OF_SETTING };

const char *ls_memory_limit_name(int64_t of) {
    return of == OF_SETTING ? "LOCKSTEP_MEMORY_LIMIT" : of == OF_CGROUP ? "its cgroup" : "the machine";
}

/* 0: no number there. Version 2 says "max", version 1 a number near 2^63, where there is no limit. */
static size_t read_limit(const char *path) {
    char text[32] = "";
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (!fgets(text, sizeof(text), file)) text[0] = '\0';
    (void)fclose(file);
    unsigned long long bytes = strtoull(text, NULL, 10);
    return bytes < SIZE_MAX / 4 ? (size_t)bytes : 0;
}

static void take_least(struct ls_memory_limit *limit, size_t bytes, int of) {
    if (bytes && bytes < limit->bytes) *limit = (struct ls_memory_limit){bytes, of};
}

/* From the process's cgroup up to the top of the mount. path is changed. */
static void read_groups(const char *mount, char *path, const char *file, struct ls_memory_limit *limit) {
    char name[2 * MOST_PATH];
    for (;;) {
        int length = snprintf(name, sizeof(name), "%s%s/%s", mount, path, file);
        if (length > 0 && (size_t)length < sizeof(name)) take_least(limit, read_limit(name), OF_CGROUP);
        char *last = strrchr(path, '/');
        if (!last) return;
        *last = '\0';
    }
}

static void read_line(const char *root, char *line, struct ls_memory_limit *limit) {
    char mount[MOST_PATH];
    char *kinds = strchr(line, ':'), *path = kinds ? strchr(kinds + 1, ':') : NULL;
    if (!path) return;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    if (!strcmp(path, "/")) *path = '\0';
    bool unified = !strcmp(kinds, ":");
    if (!unified && strcmp(kinds, ":memory") != 0) return;
    (void)snprintf(mount, sizeof(mount), "%s/sys/fs/cgroup%s", root, unified ? "" : "/memory");
    read_groups(mount, path, unified ? "memory.max" : "memory.limit_in_bytes", limit);
}

struct ls_memory_limit ls_memory_limit_find(int64_t set, const char *root) {
    struct ls_memory_limit limit = {SIZE_MAX, OF_MACHINE};
    char path[MOST_PATH], line[MOST_PATH];
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (pages > 0 && size > 0) limit.bytes = (size_t)pages * (size_t)size;
    (void)snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) read_line(root, line, &limit);
    if (file) (void)fclose(file);
    take_least(&limit, (size_t)set, OF_SETTING);
    return limit;
}
