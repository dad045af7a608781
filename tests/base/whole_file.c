/* Files that are there whole or as they were, and what is beside them meanwhile and afterwards. */
#define _GNU_SOURCE
#include "base/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faulty_files.h"
#include "harness.h"

static void enter(void) {
    char folder[] = "/tmp/lockstep-whole-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static int count_entries(void) {
    int count = -2; /* "." and ".." */
    DIR *folder = opendir(".");
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder)) count++;
    (void)closedir(folder);
    return count;
}

static void leave(void) {
    char folder[4096];
    ck_assert_ptr_nonnull(getcwd(folder, sizeof(folder)));
    (void)unlink("file");
    (void)unlink("link");
    ck_assert_int_eq(count_entries(), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void open_and_say(const char *path, const char *text, struct ls_whole_file *file) {
    assert_ok(ls_whole_file_open(path, file));
    ck_assert_int_ge(fputs(text, file->out), 0);
}

static void check_text(const char *want) {
    char text[64] = "";
    FILE *in = fopen("file", "re");
    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_nonnull(fgets(text, sizeof(text), in));
    (void)fclose(in);
    ck_assert_str_eq(text, want);
}

TEST(the_last_to_close_has_it) {
    struct ls_whole_file first, second, third;
    open_and_say("file", "first", &first);
    open_and_say("file", "second", &second);
    ck_assert_int_eq(count_entries(), 2);
    assert_ok(ls_whole_file_close(&second, LS_OK));
    check_text("second");
    open_and_say("file", "third", &third);
    ck_assert_int_eq(ls_whole_file_close(&third, LS_ABORTED), LS_ABORTED);
    check_text("second");
    assert_ok(ls_whole_file_close(&first, LS_OK));
    check_text("first");
    ck_assert_int_eq(count_entries(), 1);
}

TEST(a_links_place_is_written) {
    struct ls_whole_file file;
    struct stat info;
    open_and_say("file", "old", &file);
    assert_ok(ls_whole_file_close(&file, LS_OK));
    ck_assert_int_eq(symlink("file", "link"), 0);
    open_and_say("link", "new", &file);
    assert_ok(ls_whole_file_close(&file, LS_OK));
    check_text("new");
    ck_assert_int_eq(lstat("link", &info), 0);
    ck_assert(S_ISLNK(info.st_mode));
}

TEST(a_device_is_written_as_it_is) {
    struct ls_whole_file file;
    open_and_say("/dev/null", "x", &file);
    ck_assert_ptr_null(file.partial.path);
    assert_ok(ls_whole_file_close(&file, LS_OK));
    open_and_say("/dev/full", "x", &file);
    assert_fails(ls_whole_file_close(&file, LS_OK), LS_RESOURCE_EXHAUSTED, "'/dev/full'");
}

TEST(trying_leaves_nothing) {
    assert_ok(ls_whole_file_try("file"));
    ck_assert_int_eq(count_entries(), 0);
    assert_fails(ls_whole_file_try("none/file"), LS_NOT_FOUND, "'none/file'");
    ck_assert_int_ne(ls_whole_file_try("."), LS_OK);
}

static _Noreturn void write_and_die(int folder) {
    struct ls_whole_file_partial partial;
    if (ls_whole_file_partial_new("file", folder, &partial)) _exit(1);
    if (folder && mkdirat(partial.fd, "below", 0777)) _exit(2);
    (void)raise(SIGKILL);
    _exit(3);
}

/* As a file, and as a folder with something in it. A name that only begins like one stays. */
TEST_EACH(what_a_killed_writer_left_goes_with_the_next, 2) {
    struct ls_whole_file other, file;
    int status;
    pid_t child = fork();
    if (!child) write_and_die(_i);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(count_entries(), 1);
    open_and_say("file2", "x", &other);
    ck_assert_int_eq(mkdir(".file.0123456789abcdeX", 0777), 0);
    ck_assert_int_eq(count_entries(), 3);
    open_and_say("file", "x", &file);
    ck_assert_int_eq(count_entries(), 3); /* what the dead one left has gone */
    ck_assert_int_eq(ls_whole_file_close(&other, LS_ABORTED), LS_ABORTED);
    assert_ok(ls_whole_file_close(&file, LS_OK));
    ck_assert_int_eq(rmdir(".file.0123456789abcdeX"), 0);
    ck_assert_int_eq(count_entries(), 1);
}

/* A link that cannot be looked at is not replaced, and a file that cannot is not left behind. */
TEST(who_cannot_be_looked_at_is_still_there) {
    struct ls_whole_file file;
    struct stat info;
    ck_assert_int_eq(symlink("file", "link"), 0);
    for (long k = 1;; k++) {
        open_and_say("file", "before", &file);
        assert_ok(ls_whole_file_close(&file, LS_OK));
        faulty_files_begin(k, EIO);
        ls_status status = ls_whole_file_open("link", &file);
        if (!status) (void)fputs("x", file.out);
        if (!status) status = ls_whole_file_close(&file, LS_OK);
        if (!faulty_files_end()) break;
        if (status) ck_assert_int_eq(status, LS_UNKNOWN);
        ck_assert_int_eq(lstat("link", &info), 0);
        ck_assert(S_ISLNK(info.st_mode));
        ck_assert_int_le(count_entries(), 3);
    }
    open_and_say("file", "x", &file); /* what a folder that could not be listed still holds goes with it */
    assert_ok(ls_whole_file_close(&file, LS_OK));
    ck_assert_int_eq(count_entries(), 2);
}

TESTS("whole_file", .before = enter, .after = leave)
