/* Reads the corpus. A test program may not go on with half a corpus, so every mistake ends it. */
#include "resolver/tf_config_corpus.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct place {
    const char *path;
    int line;
};

static _Noreturn void refuse(const struct place *place, const char *why) {
    (void)fprintf(stderr, "%s:%d: %s\n", place->path, place->line, why);
    exit(EXIT_FAILURE);
}

static char *copy(const struct place *place, const char *text) {
    char *made = ls_strdup(text);
    if (!made) refuse(place, "no memory");
    return made;
}

/* Decodes \xNN and \\ in place. */
static void unescape(const struct place *place, char *text) {
    char *to = text;
    for (const char *from = text; *from;) {
        unsigned byte;
        if (*from != '\\') {
            *to++ = *from++;
        } else if (from[1] == '\\') {
            *to++ = '\\';
            from += 2;
        } else {
            if (sscanf(from, "\\x%2x", &byte) != 1 || !byte) refuse(place, "bad escape");
            *to++ = (char)byte;
            from += 4;
        }
    }
    *to = 0;
}

static void add_text(const struct place *place, struct corpus_case *test, const char *rest, bool escaped) {
    char *line = copy(place, rest);
    if (escaped) unescape(place, line);
    if (!test->text) {
        test->text = line;
    } else {
        size_t size = strlen(test->text) + strlen(line) + 2;
        char *joined = ls_alloc(size);
        if (!joined) refuse(place, "no memory");
        (void)snprintf(joined, size, "%s\n%s", test->text, line);
        ls_free(test->text);
        ls_free(line);
        test->text = joined;
    }
    test->has_text = true;
}

static void add_line(const struct place *place, char **lines, int *count, const char *rest) {
    if (*count == CORPUS_LINES || !*rest) refuse(place, "too many lines of this kind, or an empty one");
    lines[(*count)++] = copy(place, rest);
}

static void check_case(const struct place *place, const struct corpus_case *test) {
    if (!test->has_text) refuse(place, "a case without text, escaped or absent");
    if (!test->is == !test->error_count) refuse(place, "a case needs either is or error");
}

static struct corpus_case *add_case(const struct place *place, struct corpus *corpus, const char *name) {
    corpus->cases = realloc(corpus->cases, (corpus->count + 1) * sizeof(*corpus->cases));
    if (!corpus->cases) refuse(place, "no memory");
    struct corpus_case *test = &corpus->cases[corpus->count++];
    memset(test, 0, sizeof(*test));
    test->name = copy(place, name);
    return test;
}

static void read_line(const struct place *place, struct corpus *corpus, char *line) {
    char *rest = strchr(line, ' ');
    rest = rest ? (*rest = 0, rest + 1) : line + strlen(line);
    struct corpus_case *test = corpus->count ? &corpus->cases[corpus->count - 1] : NULL;
    if (!strcmp(line, "case")) {
        if (test) check_case(place, test);
        (void)add_case(place, corpus, rest);
    } else if (!test) {
        refuse(place, "a line before the first case");
    } else if (!strcmp(line, "text") || !strcmp(line, "escaped")) {
        add_text(place, test, rest, *line == 'e');
    } else if (!strcmp(line, "absent")) {
        test->has_text = true;
    } else if (!strcmp(line, "is") || !strcmp(line, "cluster")) {
        *(*line == 'i' ? &test->is : &test->cluster) = copy(place, rest);
    } else if (!strcmp(line, "error")) {
        add_line(place, test->errors, &test->error_count, rest);
    } else if (!strcmp(line, "warns")) {
        add_line(place, test->warnings, &test->warning_count, rest);
    } else {
        refuse(place, "an unknown word");
    }
}

static void read_file(const char *path, struct corpus *corpus) {
    struct place place = {path, 0};
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    if (!file) refuse(&place, "cannot open it");
    while (getline(&line, &room, file) >= 0) {
        place.line++;
        line[strcspn(line, "\n")] = 0;
        if (*line && *line != '#') read_line(&place, corpus, line);
    }
    if (corpus->count) check_case(&place, &corpus->cases[corpus->count - 1]);
    free(line);
    (void)fclose(file);
}

static int is_text(const struct dirent *entry) {
    size_t size = strlen(entry->d_name);
    return size > 4 && !strcmp(entry->d_name + size - 4, ".txt");
}

void corpus_read(const char *folder, struct corpus *corpus) {
    struct dirent **entries;
    struct place place = {folder, 0};
    int count = scandir(folder, &entries, is_text, alphasort);
    if (count <= 0) refuse(&place, "no corpus here");
    *corpus = (struct corpus){0};
    for (int i = 0; i < count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        read_file(path, corpus);
        free(entries[i]);
    }
    free(entries);
}

void corpus_free(struct corpus *corpus) {
    for (size_t i = 0; i < corpus->count; i++) {
        struct corpus_case *test = &corpus->cases[i];
        for (int k = 0; k < test->error_count; k++) ls_free(test->errors[k]);
        for (int k = 0; k < test->warning_count; k++) ls_free(test->warnings[k]);
        ls_free(test->name);
        ls_free(test->text);
        ls_free(test->is);
        ls_free(test->cluster);
    }
    free(corpus->cases);
    *corpus = (struct corpus){0};
}
