/* Finding the first field that differs. Fields are few enough for a plain search. */
#include "cluster/lines.h"

#include <stdio.h>
#include <string.h>

struct line {
    const char *text;
    int name_length, value_length;
    const char *value;
};

/* Reads the line at *at and moves on; false at the end. A line without '=' is a field with an empty value. */
static bool next_line(const char **at, struct line *line) {
    if (!**at) return false;
    size_t length = strcspn(*at, "\n");
    const char *equals = memchr(*at, '=', length);
    line->text = *at;
    line->name_length = (int)(equals ? (size_t)(equals - *at) : length);
    line->value = equals ? equals + 1 : *at + length;
    line->value_length = (int)(*at + length - line->value);
    *at += length + ((*at)[length] == '\n');
    return true;
}

static bool find(const char *text, const struct line *wanted, struct line *found) {
    while (next_line(&text, found))
        if (found->name_length == wanted->name_length &&
            memcmp(found->text, wanted->text, (size_t)wanted->name_length) == 0)
            return true;
    return false;
}

static bool same_value(const struct line *a, const struct line *b) {
    return a->value_length == b->value_length && memcmp(a->value, b->value, (size_t)a->value_length) == 0;
}

static void copy_value(char text[256], const struct line *line) {
    if (line)
        (void)snprintf(text, 256, "%.*s", line->value_length, line->value);
    else
        (void)snprintf(text, 256, "(absent)");
}

static void tell(struct ls_difference *difference, const struct line *named, const struct line *first,
                 const struct line *second) {
    (void)snprintf(difference->field, sizeof(difference->field), "%.*s", named->name_length, named->text);
    copy_value(difference->first, first);
    copy_value(difference->second, second);
}

bool ls_lines_differ(const char *first, const char *second, struct ls_difference *difference) {
    struct line line, other;
    if (strcmp(first, second) == 0) return false;
    for (const char *at = first; next_line(&at, &line);) {
        bool found = find(second, &line, &other);
        if (found && same_value(&line, &other)) continue;
        tell(difference, &line, &line, found ? &other : NULL);
        return true;
    }
    for (const char *at = second; next_line(&at, &line);) {
        if (find(first, &line, &other)) continue;
        tell(difference, &line, NULL, &line);
        return true;
    }
    return false; /* the same fields in another order */
}
