/* Tests of base/options and base/log: option structs of other versions, and lines on a sink. */
#include "base/options.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "harness.h"

struct example_options {
    size_t size;
    int first, second;
};

TEST(absent_and_whole) {
    struct example_options copy = {1, 2, 3};
    assert_ok(ls_options_copy("example_options", &copy, sizeof(copy), NULL));
    ck_assert_int_eq(copy.second, 0);
    struct example_options given = {sizeof(given), 7, 8};
    assert_ok(ls_options_copy("example_options", &copy, sizeof(copy), &given));
    ck_assert_int_eq(copy.first, 7);
    ck_assert_int_eq(copy.second, 8);
}

TEST(older_struct) {
    struct example_options copy = {1, 2, 3}, given = {offsetof(struct example_options, second), 7, 8};
    assert_ok(ls_options_copy("example_options", &copy, sizeof(copy), &given));
    ck_assert_int_eq(copy.first, 7);
    ck_assert_int_eq(copy.second, 0);
}

TEST_EACH(bad_size, 3) {
    static const size_t sizes[] = {0, 4, sizeof(struct example_options) + 8};
    struct example_options copy, given = {sizes[_i], 7, 8};
    assert_refused(ls_options_copy("example_options", &copy, sizeof(copy), &given), "example_options.size");
}

struct heard {
    ls_log_level level;
    char line[256];
    int lines;
};

static void hear(void *context, ls_log_level level, const char *line) {
    struct heard *heard = context;
    heard->level = level;
    heard->lines++;
    (void)snprintf(heard->line, sizeof(heard->line), "%s", line);
}

TEST(log_lines) {
    struct heard heard = {0};
    struct ls_log log = {.sink = hear, .context = &heard, .level = LS_LOG_WARNING, .name = "worker:1"};
    ls_log_info(&log, "dropped");
    ck_assert_int_eq(heard.lines, 0);
    ls_log_warning(&log, "%d left", 3);
    ck_assert_str_eq(heard.line, "worker:1: warning: 3 left");
    ck_assert_int_eq(heard.level, LS_LOG_WARNING);
    log.name[0] = '\0';
    log.level = LS_LOG_DEBUG;
    ls_log_info(&log, "plain");
    ck_assert_str_eq(heard.line, "plain");
    ck_assert_int_eq(heard.lines, 2);
    ls_log_error(NULL, "nobody listens");
}

TESTS("options")
