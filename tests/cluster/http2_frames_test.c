/* The frames of HTTP/2 that pass before a worker has been found behind a connection, in portions of every size. */
#include "cluster/net/http2_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define MOST 100000

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION };
static const char beginning[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

struct text {
    uint8_t bytes[400000];
    size_t size;
};

static void begin(struct text *text) {
    text->size = sizeof(beginning) - 1;
    memcpy(text->bytes, beginning, text->size);
}

static void add(struct text *text, int kind, int flags, size_t body) {
    const uint8_t header[9] = {
        (uint8_t)(body >> 16), (uint8_t)(body >> 8), (uint8_t)body, (uint8_t)kind, (uint8_t)flags, 0, 0, 0, 1};
    ck_assert_uint_le(text->size + sizeof(header) + body, sizeof(text->bytes));
    memcpy(text->bytes + text->size, header, sizeof(header));
    memset(text->bytes + text->size + sizeof(header), 0xA5, body);
    text->size += sizeof(header) + body;
}

/* The frames of gRPC until the answer to a Hello of that size has come. */
static void say_hello(struct text *text, size_t size) {
    begin(text);
    add(text, SETTINGS, 0, 30);
    add(text, WINDOW_UPDATE, 0, 4);
    add(text, SETTINGS, 1, 0);
    add(text, HEADERS, 4, 300);
    add(text, DATA, 0, 150);
    add(text, PING, 0, 8);
    for (; size > 16384; size -= 16384) add(text, DATA, 0, 16384);
    add(text, DATA, 0, size);
}

/* The text in portions of at most so many bytes; the words that ended it. */
static const char *look(const struct text *text, size_t most, size_t portion) {
    struct ls_http2_frames frames = {.most = most};
    const char *why = NULL;
    for (size_t at = 0; at < text->size && !why;) {
        size_t part = 1 + (size_t)rand() % portion;
        if (part > text->size - at) part = text->size - at;
        why = ls_http2_frames_look(&frames, text->bytes + at, part);
        at += part;
    }
    return why;
}

static void expect(const struct text *text, const char *words) {
    static const size_t portions[] = {1, 2, 9, 1000, sizeof(text->bytes)};
    for (size_t i = 0; i < sizeof(portions) / sizeof(portions[0]); i++) {
        const char *why = look(text, MOST, portions[i]);
        if (words)
            ck_assert_msg(why && strstr(why, words), "portions of %zu: %s", portions[i], why ? why : "let through");
        else
            ck_assert_msg(!why, "portions of %zu: %s", portions[i], why);
    }
}

static struct text text;

TEST(a_hello_passes) {
    say_hello(&text, 10);
    expect(&text, NULL);
    say_hello(&text, 90000);
    expect(&text, NULL);
    say_hello(&text, 10);
    add(&text, DATA, 0, 40000); /* gRPC's server has allowed it */
    expect(&text, NULL);
    add(&text, RST_STREAM, 0, 4); /* and one that is given up */
    expect(&text, NULL);
}

TEST(what_is_not_http2_is_for_others_to_judge) {
    text.size = sizeof(text.bytes);
    memset(text.bytes, 'x', text.size);
    expect(&text, NULL);
    begin(&text);
    text.bytes[23] = 'x';
    text.size = sizeof(text.bytes);
    expect(&text, NULL);
}

static const struct {
    int kind, flags;
    size_t body;
    int count;
    const char *why;
} floods[] = {
    {HEADERS, 4, 60, 1, "opens a second call"}, {HEADERS, 5, 0, 1, "opens a second call"},
    {RST_STREAM, 0, 4, 200, "more frames"},     {PING, 0, 8, 200, "more frames"},
    {SETTINGS, 0, 0, 200, "more frames"},       {WINDOW_UPDATE, 0, 4, 200, "more frames"},
    {DATA, 0, 0, 200, "more frames"},           {GOAWAY, 0, 8, 200, "more frames"},
    {DATA, 0, 16384, 7, "more than a worker"},  {DATA, 0, 40000, 3, "more than a worker"},
    {CONTINUATION, 0, 0, 1, "no worker sends"}, {CONTINUATION, 4, 9, 1, "no worker sends"},
    {PRIORITY, 0, 5, 1, "no worker sends"},     {PUSH_PROMISE, 4, 5, 1, "no worker sends"},
    {77, 0, 5, 1, "no worker sends"},
};

TEST_EACH(a_flood_does_not, COUNT_OF(floods)) {
    say_hello(&text, 10);
    for (int i = 0; i < floods[_i].count; i++) add(&text, floods[_i].kind, floods[_i].flags, floods[_i].body);
    expect(&text, floods[_i].why);
}

TEST(headers_are_few) {
    begin(&text);
    add(&text, HEADERS, 4, LS_FRAMES_HEADERS + 1);
    expect(&text, "too many headers");
    begin(&text);
    add(&text, HEADERS, 0, 10); /* to be continued */
    expect(&text, "too many headers");
}

TESTS("cluster/http2_frames")
