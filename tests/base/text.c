/* Texts that a stream writes, and what is left where it cannot. */
#define _GNU_SOURCE
#include "base/text.h"

#include "base/random.h"
#include "harness.h"

enum { ROUNDS = 100, WRITES = 60, MOST = 500 };

struct draws {
    uint64_t seed, index;
};

static size_t below(struct draws *draws, size_t limit) {
    return ls_random_bits(draws->seed, 0, draws->index++) % limit;
}

static bool no_stream, bad_end;

FILE *__real_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size) {
    return no_stream ? NULL : __real_open_memstream(text, size);
}

int __real_fclose(FILE *stream);
int __wrap_fclose(FILE *stream);
int __wrap_fclose(FILE *stream) {
    int failed = __real_fclose(stream);
    return bad_end ? EOF : failed;
}

TEST_EACH(random_writes_are_all_there, ROUNDS) {
    struct draws draws = {.seed = (uint64_t)_i};
    char want[WRITES * MOST + 1] = "", *made = NULL;
    size_t length = 0;
    struct ls_text text;
    FILE *out = ls_text_open(&text, 0);
    ck_assert_ptr_nonnull(out);
    for (size_t writes = below(&draws, WRITES); writes; writes--) {
        int count = (int)below(&draws, MOST), letter = 'a' + (int)below(&draws, 26);
        for (int i = 0; i < count; i++) want[length++] = (char)letter;
        for (int i = 0; i < count; i++) ck_assert_int_eq(fputc(letter, out), letter);
    }
    assert_ok(ls_text_close(&text, LS_OK, "a text", &made));
    ck_assert_str_eq(made, want);
    ck_assert_uint_eq(text.size, length);
    free(made);
}

TEST(an_expression_makes_a_text) {
    char *made = NULL;
    assert_ok(LS_TEXT(out, fprintf(out, "%d birds", 3), "a song", &made));
    ck_assert_str_eq(made, "3 birds");
    free(made);
    made = NULL;
    no_stream = true;
    ck_assert_int_eq(LS_TEXT(out, fputs("none", out), "a song", &made), LS_RESOURCE_EXHAUSTED);
    ck_assert_ptr_null(made);
}

TEST(without_memory_nothing_is_made) {
    char *made = NULL;
    struct ls_text text;
    no_stream = true;
    ck_assert_ptr_null(ls_text_open(&text, 7));
    ck_assert_int_eq(ls_text_close(&text, LS_OK, "a song", &made), LS_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(ls_error(), "no memory for a song (7 bytes)");
    ck_assert_ptr_null(made);
}

TEST(an_end_that_fails_is_an_error) {
    char *made = NULL;
    struct ls_text text;
    FILE *out = ls_text_open(&text, 7);
    (void)fputs("four", out);
    bad_end = true;
    ck_assert_int_eq(ls_text_close(&text, LS_OK, "a song", &made), LS_RESOURCE_EXHAUSTED);
    bad_end = false;
    ck_assert_str_eq(ls_error(), "no memory for a song (4 bytes)");
    ck_assert_ptr_null(made);
}

TEST_EACH(the_writers_error_stays, 2) {
    char *made = NULL;
    struct ls_text text;
    FILE *out = ls_text_open(&text, 0);
    (void)fputs("half", out);
    bad_end = _i;
    ck_assert_int_eq(ls_text_close(&text, ls_fail(LS_NOT_FOUND, "no key"), "a song", &made), LS_NOT_FOUND);
    bad_end = false;
    ck_assert_str_eq(ls_error(), "no key");
    ck_assert_ptr_null(made);
}

TESTS("text")
