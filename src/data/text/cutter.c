/* PCRE2 knows the classes of Unicode. White space is written out: PCRE2's \s has U+180E as well, which Unicode 6.3 took
 * out of it, and has tiktoken's not. Each alternative takes all that it can and gives nothing back, so that a run of
 * any length needs no stack: white space stops before its last character where a word follows. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/text/cutter.h"

#include <pcre2.h>

#include "base/new.h"
#include "data/text/utf8.h"

#define SPACE                                                                                                          \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define PATTERN                                                                                                        \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}++| ?\\p{N}++| ?[^" SPACE "\\p{L}\\p{N}]++|(?:[" SPACE "](?![^" SPACE             \
    "]))++|[" SPACE "]"

struct ls_cutter {
    pcre2_code *code; /* owns */
};

static ls_status fail_pattern(const char *doing, int error) {
    char text[128] = "";
    (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof(text));
    return error == PCRE2_ERROR_NOMEMORY ? ls_fail_memory("words", 1)
                                         : ls_fail(LS_INTERNAL, "PCRE2 cannot %s words: %s", doing, text);
}

ls_status ls_cutter_new(struct ls_cutter **cutter) {
    int error = 0;
    PCRE2_SIZE at = 0;
    LS_NEW(struct ls_cutter, made, "words");
    made->code = pcre2_compile((PCRE2_SPTR)PATTERN, sizeof(PATTERN) - 1, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error,
                               &at, NULL);
    ls_status status = made->code ? LS_OK : fail_pattern("read the pattern of", error);
    if (!status) (void)pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE); /* where it may: else it is interpreted */
    return LS_HAND_OVER(status, cutter, made, ls_cutter_free(made));
}

void ls_cutter_free(struct ls_cutter *cutter) {
    if (!cutter) return;
    pcre2_code_free(cutter->code);
    ls_free(cutter);
}

/* ---- the runs of a text ---- */

/* The length of the first run, of UTF-8 or of what is not. */
static size_t run_length(struct ls_token_bytes text, bool *valid) {
    size_t at = 0;
    *valid = ls_utf8_character(text.at, text.size);
    while (at < text.size) {
        size_t length = ls_utf8_character(text.at + at, text.size - at);
        if ((length != 0) != *valid) break;
        at += length ? length : 1;
    }
    return at;
}

struct walk {
    const struct ls_cutter *cutter;
    pcre2_match_data *data;      /* owns */
    pcre2_match_context *limits; /* owns */
    ls_word_fn *take;
    void *context;
};

static ls_status walk_run(const struct walk *walk, struct ls_token_bytes run) {
    ls_status status = LS_OK;
    for (size_t at = 0; at < run.size && !status;) {
        int found = pcre2_match(walk->cutter->code, run.at, run.size, at, PCRE2_NO_UTF_CHECK, walk->data, walk->limits);
        if (found < 0) return fail_pattern("cut a text into", found);
        size_t end = pcre2_get_ovector_pointer(walk->data)[1];
        status = walk->take(walk->context, (struct ls_token_bytes){run.at + at, end - at});
        at = end;
    }
    return status;
}

static ls_status walk_runs(const struct walk *walk, struct ls_token_bytes text) {
    ls_status status = LS_OK;
    while (text.size && !status) {
        bool valid;
        struct ls_token_bytes run = {text.at, run_length(text, &valid)};
        status = valid ? walk_run(walk, run) : walk->take(walk->context, run);
        text = (struct ls_token_bytes){text.at + run.size, text.size - run.size};
    }
    return status;
}

ls_status ls_cutter_walk(const struct ls_cutter *cutter, struct ls_token_bytes text, ls_word_fn *take, void *context) {
    struct walk walk = {cutter, pcre2_match_data_create_from_pattern(cutter->code, NULL),
                        pcre2_match_context_create(NULL), take, context};
    ls_status status = walk.data && walk.limits ? LS_OK : ls_fail_memory("words", 1);
    if (!status) (void)pcre2_set_match_limit(walk.limits, UINT32_MAX);
    if (!status) status = walk_runs(&walk, text);
    pcre2_match_data_free(walk.data);
    pcre2_match_context_free(walk.limits);
    return status;
}
