/* Texts that tell people how two values differ. */
#include "base/difference.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"

static const struct {
    const char *field, *first, *second, *named, *said[2];
} cases[] = {
    {"data shuffle", "each-epoch", "never", "data shuffle", {"each-epoch", "never"}},
    {"loss", "", "huber", "loss", {"", "huber"}},
    {"epochs", "1", "2", "epochs", {"1", "2"}},
    {"data sample_sha256",
     "0123456789abcdef",
     "fedcba9876543210",
     "data sample_sha256 (the data files are not the same)",
     {"0123456789ab", "fedcba987654"}},
};

static void say(const char *field, const char *first, const char *second, char named[128],
                char said[2][LS_DIFFERENCE_TEXT]) {
    (void)snprintf(named, 128, "%s", field);
    ls_difference_say(named, 128, (struct ls_value){first, strlen(first)}, (struct ls_value){second, strlen(second)},
                      said);
}

TEST_EACH(names, COUNT_OF(cases)) {
    char named[128], said[2][LS_DIFFERENCE_TEXT];
    say(cases[_i].field, cases[_i].first, cases[_i].second, named, said);
    ck_assert_str_eq(named, cases[_i].named);
    for (int i = 0; i < 2; i++) ck_assert_str_eq(said[i], cases[_i].said[i]);
}

/* Of a network of 60 layers the one that differs, wherever it is. */
TEST_EACH(the_first_part_that_differs, 60) {
    char first[4096] = "", second[4096] = "", named[128], said[2][LS_DIFFERENCE_TEXT], wanted[64];
    for (int i = 0; i < 60; i++) {
        size_t one = strlen(first), other = strlen(second);
        (void)snprintf(first + one, sizeof(first) - one, "; dense_%d dense(relu) -> (64)", i);
        (void)snprintf(second + other, sizeof(second) - other, "; dense_%d dense(relu) -> (%d)", i, i == _i ? 32 : 64);
    }
    say("model", first + 2, second + 2, named, said);
    (void)snprintf(wanted, sizeof(wanted), "dense_%d dense(relu) -> (64)", _i);
    ck_assert_str_eq(said[0], wanted);
    ck_assert_ptr_nonnull(strstr(said[1], "-> (32)"));
    say("model", first + 2, "dense_0 dense(relu) -> (64)", named, said);
    ck_assert_str_eq(said[0], "dense_1 dense(relu) -> (64)");
    ck_assert_str_eq(said[1], "");
}

TESTS("difference")
