/* Tests of base/memory_limit: the least limit of the cgroups above a process, in made trees of both versions. */
#define _GNU_SOURCE /* nftw */
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "harness.h"

static char root[32];

static void write_text(const char *path, const char *text) {
    char whole[512];
    (void)snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        (void)mkdir(whole, 0700);
    }
    FILE *file = fopen(whole, "w");
    ck_assert_ptr_nonnull(file);
    (void)fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

struct text {
    const char *path, *text;
};
static const struct {
    struct text files[4];
    int64_t set;
    size_t bytes;
    const char *of;
} rows[] = {
    {{{"/proc/self/cgroup", "0::/a/b\n"}, {"/sys/fs/cgroup/a/b/memory.max", "70000\n"}}, 0, 70000, "its cgroup"},
    {{{"/proc/self/cgroup", "0::/a/b\n"},
      {"/sys/fs/cgroup/a/b/memory.max", "max\n"},
      {"/sys/fs/cgroup/a/memory.max", "60000\n"},
      {"/sys/fs/cgroup/memory.max", "90000\n"}},
     0,
     60000,
     "its cgroup"},
    {{{"/proc/self/cgroup", "0::/of/the/host\n"}, {"/sys/fs/cgroup/memory.max", "50000\n"}}, 0, 50000, "its cgroup"},
    {{{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "50000\n"}},
     40000,
     40000,
     "LOCKSTEP_MEMORY_LIMIT"},
    {{{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "50000\n"}}, 50001, 50000, "its cgroup"},
    {{{"/proc/self/cgroup", "5:devices:/x\n4:memory:/pod/one\n0::/\n"},
      {"/sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes", "30000\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     0,
     30000,
     "its cgroup"},
    {{{"/proc/self/cgroup", "nonsense\n::\n4:memory\n"}}, 1, 1, "LOCKSTEP_MEMORY_LIMIT"},
};

TEST_EACH(the_least_limit_counts, COUNT_OF(rows)) {
    (void)snprintf(root, sizeof(root), "/tmp/lockstep-limit-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    for (size_t i = 0; i < sizeof(rows[_i].files) / sizeof(rows[_i].files[0]) && rows[_i].files[i].path; i++)
        write_text(rows[_i].files[i].path, rows[_i].files[i].text);
    struct ls_memory_limit limit = ls_memory_limit_find(rows[_i].set, root);
    ck_assert_uint_eq(limit.bytes, rows[_i].bytes);
    ck_assert_str_eq(ls_memory_limit_name(limit.of), rows[_i].of);
    ck_assert_int_eq(folder_remove(root), 0);
}

TEST(the_machine_has_a_limit) {
    struct ls_memory_limit limit = ls_memory_limit_find(0, "/nowhere");
    ck_assert_str_eq(ls_memory_limit_name(limit.of), "the machine");
    ck_assert_uint_eq(limit.bytes, (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
    ck_assert_uint_le(ls_memory_limit_find(0, "").bytes, limit.bytes);
}

TESTS("base/memory_limit")
