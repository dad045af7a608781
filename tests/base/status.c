/* Tests of base/status: names, messages by thread, exit statuses. */
#include "base/status.h"

#include <string.h>

#include "base/thread.h"
#include "harness.h"

START_TEST(names) {
    ck_assert_str_eq(ls_status_name(LS_OK), "OK");
    ck_assert_str_eq(ls_status_name(LS_INVALID_ARGUMENT), "INVALID_ARGUMENT");
    ck_assert_str_eq(ls_status_name(LS_UNAUTHENTICATED), "UNAUTHENTICATED");
    ck_assert_str_eq(ls_status_name((ls_status)17), "UNKNOWN");
    ck_assert_str_eq(ls_version(), LS_VERSION);
}
END_TEST

START_TEST(message) {
    ck_assert_str_eq(ls_error(), "");
    ck_assert_int_eq(ls_fail(LS_NOT_FOUND, "no '%s' at %d", "door", 7), LS_NOT_FOUND);
    ck_assert_str_eq(ls_error(), "no 'door' at 7");
    ck_assert_int_eq(ls_fail_context(LS_NOT_FOUND, "worker:%d", 3), LS_NOT_FOUND);
    ck_assert_str_eq(ls_error(), "worker:3: no 'door' at 7");
    (void)ls_fail(LS_ABORTED, "again: %s", ls_error());
    ck_assert_str_eq(ls_error(), "again: worker:3: no 'door' at 7");
    ck_assert_int_eq(ls_fail_memory("a cake", 12), LS_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(ls_error(), "a cake (12 bytes)"));
}
END_TEST

START_TEST(long_message_is_cut) {
    char longer[2 * LS_ERROR_SIZE];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    (void)ls_fail(LS_INTERNAL, "%s", longer);
    ck_assert_uint_eq(strlen(ls_error()), LS_ERROR_SIZE - 1);
    (void)ls_fail_context(LS_INTERNAL, "%s", longer);
    ck_assert_uint_eq(strlen(ls_error()), LS_ERROR_SIZE - 1);
}
END_TEST

static void *fail_elsewhere(void *argument) {
    (void)ls_fail(LS_INTERNAL, "elsewhere");
    return argument;
}

START_TEST(each_thread_has_its_message) {
    pthread_t thread;
    (void)ls_fail(LS_INTERNAL, "here");
    assert_ok(ls_thread_start(&thread, "other", fail_elsewhere, NULL));
    (void)pthread_join(thread, NULL);
    ck_assert_str_eq(ls_error(), "here");
}
END_TEST

START_TEST(exit_statuses) {
    for (int code = LS_OK; code <= LS_UNAUTHENTICATED; code++) {
        int want = 1;
        if (code == LS_OK) want = 0;
        if (code == LS_INVALID_ARGUMENT || code == LS_UNIMPLEMENTED || code == LS_UNAUTHENTICATED) want = 2;
        if (code == LS_CANCELLED) want = 143;
        if (code == LS_UNAVAILABLE || code == LS_ABORTED || code == LS_DEADLINE_EXCEEDED) want = 138;
        ck_assert_int_eq(ls_exit((ls_status)code), want);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("status");
    TCase *all = tcase_create("all");
    tcase_add_test(all, names);
    tcase_add_test(all, message);
    tcase_add_test(all, long_message_is_cut);
    tcase_add_test(all, each_thread_has_its_message);
    tcase_add_test(all, exit_statuses);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
