/* The k-th call that looks for a file or reads one fails, for every k. Nothing is put aside, no older checkpoint is
 * taken, and the next try has the newest one. Only a file that ends too soon is damaged. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "checkpoint/fixture.h"
#include "checkpoint/folder_lock.h"
#include "faulty_files.h"
#include "harness.h"

static const int errors[] = {EIO, ESTALE, ENOMEM};
static const ls_status statuses[] = {LS_UNKNOWN, LS_UNKNOWN, LS_RESOURCE_EXHAUSTED};

static void check_error(long k, ls_status status) {
    ck_assert_msg(status == statuses[k], "%s: %s", ls_status_name(status), ls_error());
    ck_assert_msg(strstr(ls_error(), folder_path()) && strstr(ls_error(), strerror(errors[k])), "%s", ls_error());
    ck_assert_msg(status != LS_UNKNOWN || strstr(ls_error(), "try again"), "%s", ls_error());
}

TEST_EACH(an_error_of_reading_is_no_damage, COUNT_OF(errors)) {
    int failures = 0;
    assert_ok(save_step(1, 2));
    assert_ok(save_step(2, 2));
    for (long k = 1;; k++, failures++) {
        int64_t step;
        faulty_files_begin(k, errors[_i]);
        ls_status status = try_load(&step);
        if (!faulty_files_end()) break;
        check_error(_i, status);
        ck_assert_int_eq(take_warnings(NULL), 0);
        ck_assert_int_eq(count_files("checkpoint-"), 2);
        ck_assert_int_eq(count_files(""), 2);
        ck_assert_int_eq(load_step(), 2);
    }
    ck_assert_int_ge(failures, 5);
}

TEST(an_interrupted_read_is_made_again) {
    int64_t step;
    assert_ok(save_step(1, 2));
    faulty_files_begin(5, EINTR); /* after the folder is opened and listed, and the file opened and looked at */
    assert_ok(try_load(&step));
    ck_assert(faulty_files_end());
    ck_assert_int_eq(step, 1);
}

TEST(an_early_end_is_damage) {
    char said[1200];
    int64_t step;
    assert_ok(save_step(1, 2));
    assert_ok(save_step(2, 2));
    faulty_files_begin(1, 0);
    assert_ok(try_load(&step)); /* the older one ends at once, too */
    ck_assert(faulty_files_end());
    ck_assert_int_eq(step, 0);
    ck_assert_int_eq(take_warnings(said), 2);
    ck_assert_msg(strstr(said, "ends too soon: at offset 0") && strstr(said, "kept as 'damaged-checkpoint-"), "%s",
                  said);
    ck_assert_int_eq(count_files("damaged-"), 2);
}

/* A lock that cannot be looked at is nobody else's. */
TEST_EACH(a_lock_that_cannot_be_read_is_told, 3) {
    int failures = 0;
    struct ls_folder_lock *held = NULL;
    assert_ok(ls_folder_lock_take(folder_path(), 1, NULL, &held));
    for (long k = 1;; k++, failures++) {
        struct ls_folder_lock *lock = NULL;
        if (_i == 2) ls_folder_lock_free(ls_steal(held));
        faulty_files_begin(k, EIO);
        ls_status status = ls_folder_lock_take(folder_path(), _i ? 1 : 2, NULL, &lock);
        bool reached = faulty_files_end();
        ls_folder_lock_free(lock);
        if (!reached) break;
        if (status) check_error(0, status);
    }
    ck_assert_int_ge(failures, 3);
    ls_folder_lock_free(held);
}

TEST(a_lock_stands_while_it_cannot_be_looked_at) {
    struct ls_folder_lock *lock = NULL;
    assert_ok(ls_folder_lock_take(folder_path(), 1, NULL, &lock));
    for (long k = 1; k <= 2; k++) {
        faulty_files_begin(k, EIO);
        ck_assert(!ls_folder_lock_displaced(lock));
        ck_assert(faulty_files_end());
        faulty_files_begin(k, EIO);
        ck_assert(ls_folder_lock_stands(lock));
        ck_assert(faulty_files_end());
    }
    ls_folder_lock_free(lock);
}

TESTS("reading", .before = folder_make, .after = folder_remove)
