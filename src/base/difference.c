/* Differences of two texts are cut around the first byte that differs. */
#define _GNU_SOURCE
#include "base/difference.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LONG   120 /* bytes of a value that is a list of which one part is enough */
#define BREAK  "; "
#define DIGEST "sample_sha256"

static const char *last_word(const char *field) {
    const char *blank = strrchr(field, ' ');
    return blank ? blank + 1 : field;
}

/* The next part of a list, and what is behind it. */
static struct ls_value take_part(struct ls_value *rest) {
    const char *end = memmem(rest->text, rest->size, BREAK, strlen(BREAK));
    struct ls_value part = {rest->text, end ? (size_t)(end - rest->text) : rest->size};
    size_t taken = end ? part.size + strlen(BREAK) : part.size;
    *rest = (struct ls_value){rest->text + taken, rest->size - taken};
    return part;
}

static bool same(const struct ls_value *a, const struct ls_value *b) {
    return a->size == b->size && !memcmp(a->text, b->text, a->size);
}

/* The first parts of two lists that differ. */
static void narrow_difference(struct ls_value *first, struct ls_value *second) {
    struct ls_value rests[2] = {*first, *second};
    while (rests[0].size || rests[1].size) {
        *first = take_part(&rests[0]);
        *second = take_part(&rests[1]);
        if (!same(first, second)) return;
    }
}

static void put_difference(const char *field, const struct ls_value *value, char said[LS_DIFFERENCE_TEXT]) {
    size_t size = !strcmp(field, DIGEST) && value->size > 12 ? 12 : value->size;
    (void)snprintf(said, LS_DIFFERENCE_TEXT, "%.*s", (int)size, value->text);
}

void ls_difference_say(char *field, size_t size, struct ls_value first, struct ls_value second,
                       char said[2][LS_DIFFERENCE_TEXT]) {
    const char *word = last_word(field);
    if (first.size > LONG || second.size > LONG) narrow_difference(&first, &second);
    put_difference(word, &first, said[0]);
    put_difference(word, &second, said[1]);
    size_t before = (size_t)(word - field);
    if (!strcmp(word, DIGEST) && before + 64 < size)
        (void)snprintf(field + before, size - before, "%s (the data files are not the same)", DIGEST);
}
