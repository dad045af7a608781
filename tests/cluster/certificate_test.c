/* Tests of base/certificate: what is made is accepted, and what must not be is refused with its reason. */
#include "cluster/security/certificate.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"

static struct ls_certificate_pair authority, other, worker;

static void make(int days) {
    assert_ok(ls_certificate_make_authority("a cluster", 10, &authority));
    assert_ok(ls_certificate_make_authority("a cluster", 10, &other));
    assert_ok(ls_certificate_issue(&authority, "worker-1.lockstep", days, &worker));
}

static void release(void) {
    ls_certificate_release(&authority);
    ls_certificate_release(&other);
    ls_certificate_release(&worker);
}

static void expect(const char *chain, const char *by, const char *name, const char *why) {
    ck_assert_int_eq(ls_certificate_verify(chain, by, name), LS_UNAUTHENTICATED);
    ck_assert_msg(strstr(ls_error(), why) != NULL, "no '%s' in: %s", why, ls_error());
}

TEST(verified) {
    char both[8192];
    make(10);
    assert_ok(ls_certificate_verify(worker.certificate, authority.certificate, "worker-1.lockstep"));
    (void)snprintf(both, sizeof(both), "%s%s", other.certificate, authority.certificate);
    assert_ok(ls_certificate_verify(worker.certificate, both, "worker-1.lockstep"));
    expect(worker.certificate, other.certificate, "worker-1.lockstep", "is not signed by the authority");
    expect(worker.certificate, authority.certificate, "worker-2.lockstep",
           "is for 'worker-1.lockstep', not for 'worker-2.lockstep'");
    expect(worker.certificate, authority.certificate, "*.lockstep", "is for");
    expect("nothing", authority.certificate, "worker-1.lockstep", "is no certificate");
    expect(worker.certificate, "nothing", "worker-1.lockstep", "is not signed by the authority");
    (void)snprintf(both, sizeof(both), "%s%s", worker.certificate, other.certificate);
    expect(both, authority.certificate, "worker-9.lockstep", "is for");
    release();
}

TEST(expired) {
    make(-1);
    expect(worker.certificate, authority.certificate, "worker-1.lockstep", "has expired");
    release();
}

/* The owner of a task's certificate cannot make others. */
TEST(tasks_sign_nothing) {
    struct ls_certificate_pair forged;
    char chain[8192];
    make(10);
    assert_ok(ls_certificate_issue(&worker, "worker-0.lockstep", 10, &forged));
    (void)snprintf(chain, sizeof(chain), "%s%s", forged.certificate, worker.certificate);
    expect(chain, authority.certificate, "worker-0.lockstep", "is not");
    ls_certificate_release(&forged);
    release();
}

TEST(keys) {
    make(10);
    assert_ok(ls_certificate_check_key(worker.certificate, worker.key));
    ck_assert_int_eq(ls_certificate_check_key(worker.certificate, other.key), LS_INVALID_ARGUMENT);
    ck_assert_str_eq(ls_error(), "belongs to another key");
    ck_assert_int_eq(ls_certificate_check_key(worker.certificate, "nothing"), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_certificate_check_key("nothing", worker.key), LS_INVALID_ARGUMENT);
    release();
}

TESTS("certificate")
