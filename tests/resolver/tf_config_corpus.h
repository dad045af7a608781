/* The corpus of TF_CONFIG texts: files of cases, in the format that emitters.txt explains. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define CORPUS_LINES 8 /* of expectations a case */

struct corpus_case {
    char *name;
    char *text; /* NULL: absent */
    char *is, *cluster;
    char *errors[CORPUS_LINES], *warnings[CORPUS_LINES];
    int error_count, warning_count;
    bool has_text;
};
struct corpus {
    struct corpus_case *cases;
    size_t count;
};
/* Reads every .txt file of folder; a file that does not follow the format ends the program with its name and line. */
void corpus_read(const char *folder, struct corpus *corpus);
void corpus_free(struct corpus *corpus);
