/* Files that are read: in pieces, through a pipe, up to a limit, with calls that are interrupted or fail. */
#define _GNU_SOURCE
#include "base/read_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/memory.h"
#include "faulty_files.h"
#include "folder.h"
#include "harness.h"

enum { SIZE = 20000 };
static char folder[64], path[128];

static void make_folder(void) {
    char text[SIZE];
    for (int i = 0; i < SIZE; i++) text[i] = (char)('a' + i % 23);
    (void)snprintf(folder, sizeof(folder), "/tmp/lockstep-read-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/file", folder);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, SIZE, file), SIZE);
    ck_assert_int_eq(fclose(file), 0);
}

static void remove_folder(void) {
    ck_assert_int_eq(folder_remove(folder), 0);
}

static void check_text(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) ck_assert_int_eq(text[i], 'a' + (int)(i % 23));
    ck_assert_int_eq(text[size], 0);
}

static ls_status read_up_to(size_t most, size_t want) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size = 0;
    ls_status status = ls_read_file_given("A_SETTING", path, most, &text, &size);
    if (status) return status;
    ck_assert_uint_eq(size, want);
    check_text(text, size);
    return LS_OK;
}

TEST(a_file_is_read_whole_or_up_to_a_limit) {
    assert_ok(read_up_to(SIZE_MAX - 1, SIZE));
    assert_ok(read_up_to(SIZE, SIZE));
    assert_ok(read_up_to(SIZE - 1, SIZE - 1));
    assert_ok(read_up_to(1, 1));
}

/* Its size is not known before. */
TEST(a_pipe_is_read_whole) {
    ck_assert_int_eq(remove(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    pid_t child = fork();
    if (!child) {
        FILE *file = fopen(path, "we");
        for (int i = 0; file && i < SIZE; i++) (void)fputc('a' + i % 23, file);
        _exit(!file || fclose(file));
    }
    assert_ok(read_up_to(SIZE_MAX - 1, SIZE));
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

TEST(an_interrupted_read_is_made_again) {
    faulty_files_begin(3, EINTR); /* after open and fstat */
    assert_ok(read_up_to(SIZE, SIZE));
    ck_assert(faulty_files_end());
}

TEST_EACH(an_error_is_no_mistake_of_the_users, 4) {
    static const int errors[] = {EIO, ESTALE, ENOMEM, EMFILE};
    static const ls_status statuses[] = {LS_UNKNOWN, LS_UNKNOWN, LS_RESOURCE_EXHAUSTED, LS_RESOURCE_EXHAUSTED};
    int failures = 0;
    for (long k = 1;; k++, failures++) {
        faulty_files_begin(k, errors[_i]);
        ls_status status = read_up_to(SIZE_MAX - 1, SIZE);
        if (!faulty_files_end()) break;
        ck_assert_int_eq(status, statuses[_i]);
        ck_assert_msg(strstr(ls_error(), "A_SETTING='/tmp/lockstep-read-") && strstr(ls_error(), strerror(errors[_i])),
                      "%s", ls_error());
        ck_assert_int_eq(strstr(ls_error(), "try again") != NULL, status == LS_UNKNOWN);
    }
    ck_assert_int_ge(failures, 4);
}

TEST(a_wrong_path_is_a_mistake_of_the_users) {
    static const int errors[] = {ENOENT, EACCES, EISDIR};
    for (int i = 0; i < 3; i++) {
        faulty_files_begin(1, errors[i]);
        ck_assert_int_eq(read_up_to(SIZE, SIZE), LS_INVALID_ARGUMENT);
        ck_assert(faulty_files_end());
    }
}

TEST(only_an_early_end_is_damage) {
    char text[SIZE + 1] = "";
    LS_CLEANUP(ls_read_file_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_ok(ls_read_file_at(fd, path, 46, text, SIZE - 46));
    check_text(text, SIZE - 46);
    assert_fails(ls_read_file_at(fd, path, 46, text, SIZE), LS_DATA_LOSS,
                 "ends too soon: at offset 20000, where 46 bytes more should be");
    faulty_files_begin(1, EIO);
    ck_assert_int_eq(ls_read_file_at(fd, path, 0, text, SIZE), LS_UNKNOWN);
    ck_assert(faulty_files_end());
    faulty_files_begin(1, 0);
    ck_assert_int_eq(ls_read_file_at(fd, path, 0, text, SIZE), LS_DATA_LOSS);
    ck_assert(faulty_files_end());
}

TESTS("read_file", .before = make_folder, .after = remove_folder)
