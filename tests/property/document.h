/* Random TF_CONFIGs, of which is known what they say: who the tasks are and which one is asked, or the one mistake. */
#pragma once
#include "resolver/tf_config.h"
#include "property/draw.h"

enum { ROLES = LS_TASK_EVALUATOR + 1, MOST_TASKS = 16, ADDRESS = 64, DOCUMENT = 1 << 16 };

enum mistake {
    MISTAKE_NONE,
    MISTAKE_HIGH_INDEX,
    MISTAKE_NEGATIVE_INDEX,
    MISTAKE_FRACTION,
    MISTAKE_INDEX_KIND,
    MISTAKE_NO_TYPE,
    MISTAKE_NO_INDEX,
    MISTAKE_NO_TASK,
    MISTAKE_ROLE,
    MISTAKE_ABSENT_ROLE,
    MISTAKE_EQUAL_ADDRESS,
    MISTAKE_PORT,
    MISTAKE_TWO_CHIEFS,
    MISTAKE_HOLE,
    MISTAKE_TWICE,
    MISTAKE_CUT,
    MISTAKE_TAIL,
    MISTAKE_RPC_LAYER,
    MISTAKES
};

struct document {
    char text[DOCUMENT];
    size_t used;
    struct draw draw;
    enum mistake mistake;
    bool local; /* no cluster */
    int counts[ROLES];
    bool maps[ROLES];
    char addresses[ROLES][MOST_TASKS][ADDRESS];
    enum ls_task_type type; /* this task */
    int index;
};
void document_draw(struct document *document, uint64_t seed);
/* The text that the message of a mistake must have. */
const char *document_complaint(enum mistake mistake);
