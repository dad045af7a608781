/* Differences of two texts are cut around the first byte that differs. Lines are compared field by field: of several
 * with one name the first is compared with the first, and so on. Fields are few enough for a plain search. */
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
static void narrow(struct ls_value *first, struct ls_value *second) {
    struct ls_value rests[2] = {*first, *second};
    while (rests[0].size || rests[1].size) {
        *first = take_part(&rests[0]);
        *second = take_part(&rests[1]);
        if (!same(first, second)) return;
    }
}

static void put_shortened(const char *field, const struct ls_value *value, char said[LS_DIFFERENCE_TEXT]) {
    size_t size = !strcmp(field, DIGEST) && value->size > 12 ? 12 : value->size;
    (void)snprintf(said, LS_DIFFERENCE_TEXT, "%.*s", (int)size, value->text);
}

void ls_difference_say(char *field, size_t size, struct ls_value first, struct ls_value second,
                       char said[2][LS_DIFFERENCE_TEXT]) {
    const char *word = last_word(field);
    if (first.size > LONG || second.size > LONG) narrow(&first, &second);
    put_shortened(word, &first, said[0]);
    put_shortened(word, &second, said[1]);
    size_t before = (size_t)(word - field);
    if (!strcmp(word, DIGEST) && before + 64 < size)
        (void)snprintf(field + before, size - before, "%s (the data files are not the same)", DIGEST);
}

/* ---- lines ---- */

struct line {
    struct ls_value name, value;
};

/* Reads the line at *at and moves on; false at the end. A line without '=' is a field with an empty value. */
static bool next_line(const char **at, struct line *line) {
    if (!**at) return false;
    size_t length = strcspn(*at, "\n"), name = strcspn(*at, "=\n"), behind = name + (name < length);
    *line = (struct line){{*at, name}, {*at + behind, length - behind}};
    *at += length + ((*at)[length] == '\n');
    return true;
}

/* The number of lines of that name that the text has before it. */
static int count_before(const char *text, const struct line *wanted) {
    struct line line;
    int count = 0;
    while (next_line(&text, &line) && line.name.text != wanted->name.text) count += same(&line.name, &wanted->name);
    return count;
}

/* The number-th line of that name. */
static bool find_line(const char *text, const struct line *wanted, int number, struct line *found) {
    while (next_line(&text, found))
        if (same(&found->name, &wanted->name) && number-- == 0) return true;
    return false;
}

static struct ls_value value_of(const struct line *line) {
    return line ? line->value : (struct ls_value){"(absent)", 8};
}

static void tell_line(struct ls_difference *difference, const struct line *named, const struct line *first,
                      const struct line *second) {
    (void)snprintf(difference->field, sizeof(difference->field), "%.*s", (int)named->name.size, named->name.text);
    char said[2][LS_DIFFERENCE_TEXT];
    ls_difference_say(difference->field, sizeof(difference->field), value_of(first), value_of(second), said);
    memcpy(difference->first, said[0], sizeof(difference->first));
    memcpy(difference->second, said[1], sizeof(difference->second));
}

bool ls_line_difference_find(const char *first, const char *second, struct ls_difference *difference) {
    struct line line, other;
    if (strcmp(first, second) == 0) return false;
    for (const char *at = first; next_line(&at, &line);) {
        bool found = find_line(second, &line, count_before(first, &line), &other);
        if (found && same(&line.value, &other.value)) continue;
        tell_line(difference, &line, &line, found ? &other : NULL);
        return true;
    }
    for (const char *at = second; next_line(&at, &line);) {
        if (find_line(first, &line, count_before(second, &line), &other)) continue;
        tell_line(difference, &line, NULL, &line);
        return true;
    }
    return false; /* the same fields, those of one name in the same order */
}
