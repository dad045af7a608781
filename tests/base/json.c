/* Tests of base/json: any bytes become a string that a parser takes. */
#include "base/json.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/plain.h"
#include "base/random.h"
#include "harness.h"

/* The string of text. The caller frees it with free. */
static char *written(const char *text) {
    char *json;
    size_t size;
    FILE *stream = open_memstream(&json, &size);
    ck_assert_ptr_nonnull(stream);
    ls_json_put(stream, text);
    ck_assert_int_eq(fclose(stream), 0);
    return json;
}

TEST(known_texts) {
    static const struct {
        const char *text, *json;
    } known[] = {
        {"", "\"\""},
        {"a\"b\\\n", "\"a\\\"b\\\\\\u000a\""},
        {"K\xC3\xA4se \xE2\x82\xAC \xF0\x9F\x90\xA7", "\"K\xC3\xA4se \xE2\x82\xAC \xF0\x9F\x90\xA7\""},
        {"\xE4", "\"\\ufffd\""},
        {"a\xC3", "\"a\\ufffd\""},
        {"\xC0\x80", "\"\\ufffd\\ufffd\""},
        {"\xED\xA0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"\xF5z", "\"\\ufffdz\""},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char *json = written(known[i].text);
        ck_assert_str_eq(json, known[i].json);
        free(json);
    }
}

TEST(values_in_a_format) {
    const char *volatile none = NULL;
    char *json;
    size_t size;
    FILE *stream = open_memstream(&json, &size);
    ls_json_print(stream, "%-s{'a': %s, 'b': %s, '%-s': [%i, %i, %d, %lld, %zu, %llu, %03d]}", ", ", "it's", none, "c",
                  true, false, -1, -5000000000LL, (size_t)7, 18446744073709551615ULL, 9);
    ls_json_print(stream, " %.3f %g %.9g %.0f", 0.5, 1e300 * 1e300, 0.1, (double)NAN);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_str_eq(json, ", {\"a\": \"it's\", \"b\": null, \"c\": [true, false, -1, -5000000000, 7, "
                           "18446744073709551615, 009]} 0.500 null 0.1 null");
    free(json);
}

/* Characters of UTF-8 and nothing below a space, whatever the bytes; no character is lost. */
TEST(drawn_bytes) {
    for (int round = 0; round < 2000; round++) {
        char text[9] = "";
        size_t kept = 0;
        for (int i = 0; i < 8; i++)
            text[i] =
                (char)("az\"\x80\xBF\xC3\xE2\xED\xF0\xF4\x01\x90"[ls_random_bits(1, (uint64_t)round, (uint64_t)i) %
                                                                  12]);
        for (size_t at = 0, length; text[at]; at += length ? length : 1) {
            length = ls_plain_character(text + at);
            kept += length > 1 ? length : 0;
        }
        char *json = written(text);
        for (size_t at = 0, length; json[at]; at += length) {
            length = ls_plain_character(json + at);
            ck_assert_uint_gt(length, 0);
            ck_assert_int_ge((unsigned char)json[at], ' ');
            kept -= length > 1 ? length : 0;
        }
        ck_assert_uint_eq(kept, 0);
        free(json);
    }
}

TESTS("json")
