/* Tests of base/status: names, messages by thread, exit statuses. */
#include "base/status.h"

#include <string.h>

#include "base/thread.h"
#include "harness.h"

TEST(names) {
    ck_assert_str_eq(ls_status_name(LS_OK), "OK");
    ck_assert_str_eq(ls_status_name(LS_INVALID_ARGUMENT), "INVALID_ARGUMENT");
    ck_assert_str_eq(ls_status_name(LS_UNAUTHENTICATED), "UNAUTHENTICATED");
    ck_assert_str_eq(ls_status_name((ls_status)17), "UNKNOWN");
    ck_assert_str_eq(ls_version(), LS_VERSION);
}

TEST(message) {
    ck_assert_str_eq(ls_error(), "");
    ck_assert_int_eq(ls_fail(LS_NOT_FOUND, "no '%s' at %d", "door", 7), LS_NOT_FOUND);
    ck_assert_str_eq(ls_error(), "no 'door' at 7");
    ck_assert_int_eq(ls_fail_context(LS_NOT_FOUND, "worker:%d", 3), LS_NOT_FOUND);
    ck_assert_str_eq(ls_error(), "worker:3: no 'door' at 7");
    (void)ls_fail(LS_ABORTED, "again: %s", ls_error());
    ck_assert_str_eq(ls_error(), "again: worker:3: no 'door' at 7");
    assert_fails(ls_fail_memory("a cake", 12), LS_RESOURCE_EXHAUSTED, "a cake (12 bytes)");
}

TEST(long_message_is_cut) {
    char longer[2 * LS_ERROR_SIZE];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    (void)ls_fail(LS_INTERNAL, "%s", longer);
    ck_assert_uint_eq(strlen(ls_error()), LS_ERROR_SIZE - 1);
    (void)ls_fail_context(LS_INTERNAL, "%s", longer);
    ck_assert_uint_eq(strlen(ls_error()), LS_ERROR_SIZE - 1);
}

static void *fail_elsewhere(void *argument) {
    (void)ls_fail(LS_INTERNAL, "elsewhere");
    return argument;
}

TEST(each_thread_has_its_message) {
    pthread_t thread;
    (void)ls_fail(LS_INTERNAL, "here");
    assert_ok(ls_thread_start(&thread, "other", fail_elsewhere, NULL));
    (void)pthread_join(thread, NULL);
    ck_assert_str_eq(ls_error(), "here");
}

TEST(exit_statuses) {
    for (int code = LS_OK; code <= LS_UNAUTHENTICATED; code++) {
        int want = 1;
        if (code == LS_OK) want = 0;
        if (code == LS_INVALID_ARGUMENT || code == LS_UNIMPLEMENTED || code == LS_UNAUTHENTICATED) want = 2;
        if (code == LS_CANCELLED) want = 143;
        if (code == LS_UNAVAILABLE || code == LS_ABORTED || code == LS_DEADLINE_EXCEEDED) want = 138;
        ck_assert_int_eq(ls_exit((ls_status)code), want);
    }
}

TESTS("status")
