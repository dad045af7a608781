/* Writes random TF_CONFIGs: keys in any order, lists or maps, white space and escapes anywhere, junk beside. */
#include "property/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[ROLES] = {"", "chief", "worker", "ps", "evaluator"};

const char *document_complaint(enum mistake mistake) {
    static const char *const words[MISTAKES] = {
        [MISTAKE_NONE] = "",
        [MISTAKE_HIGH_INDEX] = "task.index is ",
        [MISTAKE_NEGATIVE_INDEX] = "it is negative",
        [MISTAKE_FRACTION] = "it is no whole number",
        [MISTAKE_INDEX_KIND] = "it is no number",
        [MISTAKE_NO_TYPE] = "is given but task.type is missing",
        [MISTAKE_NO_INDEX] = "is given but task.index is missing",
        [MISTAKE_NO_TASK] = "task.type and task.index are missing",
        [MISTAKE_ROLE] = "task.type is the unknown role",
        [MISTAKE_ABSENT_ROLE] = "lists no ",
        [MISTAKE_EQUAL_ADDRESS] = "which is the address of",
        [MISTAKE_PORT] = "port",
        [MISTAKE_TWO_CHIEFS] = "at most one chief",
        [MISTAKE_HOLE] = "lacks index",
        [MISTAKE_TWICE] = "stands twice; keep one",
        [MISTAKE_CUT] = "bad JSON",
        [MISTAKE_TAIL] = "bad JSON",
        [MISTAKE_RPC_LAYER] = "rpc_layer is",
    };
    return words[mistake];
}

/* ---- writing ---- */

__attribute__((format(printf, 2, 3))) static void put(struct document *document, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(document->text + document->used, DOCUMENT - document->used, format, arguments);
    va_end(arguments);
    if (written < 0 || (size_t)written >= DOCUMENT - document->used) trial_fail("the document is too long");
    document->used += (size_t)written;
}

static void space(struct document *document) {
    static const char *const spaces[] = {" ", "\n", "\t", "\r\n", "    "};
    if (draw_once_in(&document->draw, 4)) put(document, "%s", spaces[draw_below(&document->draw, 5)]);
}

static void mark(struct document *document, const char *text) {
    space(document);
    put(document, "%s", text);
    space(document);
}

/* A text, of which some letters are escaped. */
static void quote(struct document *document, const char *text) {
    put(document, "\"");
    for (; *text; text++)
        put(document, draw_once_in(&document->draw, 16) ? "\\u%04x" : "%c", (unsigned)(unsigned char)*text);
    put(document, "\"");
}

static void key(struct document *document, const char *name) {
    space(document);
    quote(document, name);
    mark(document, ":");
}

/* 0 to count - 1 in a random order. */
static void shuffle(struct draw *draw, int *order, int count) {
    for (int i = 0; i < count; i++) {
        int other = (int)draw_below(draw, (size_t)i + 1);
        order[i] = order[other];
        order[other] = i;
    }
}

/* ---- the cluster ---- */

static void write_tasks(struct document *document, int role) {
    int order[MOST_TASKS], count = document->counts[role];
    bool map = document->maps[role];
    shuffle(&document->draw, order, count);
    mark(document, map ? "{" : "[");
    for (int i = 0; i < count; i++) {
        int task = map ? order[i] : i, hole = document->mistake == MISTAKE_HOLE && role == LS_TASK_WORKER;
        char number[16];
        (void)snprintf(number, sizeof(number), "%d", task + (hole && task > 0));
        if (i) mark(document, ",");
        if (map) key(document, number);
        quote(document, document->addresses[role][task]);
    }
    mark(document, map ? "}" : "]");
}

static void write_cluster(struct document *document) {
    int order[ROLES - 1];
    bool first = true;
    shuffle(&document->draw, order, ROLES - 1);
    mark(document, "{");
    for (int i = 0; i < ROLES - 1; i++) {
        int role = order[i] + 1;
        if (!document->counts[role] && !draw_once_in(&document->draw, 8)) continue; /* an empty list says nothing */
        if (!first) mark(document, ",");
        first = false;
        key(document, names[role]);
        write_tasks(document, role);
    }
    mark(document, "}");
}

/* ---- the task ---- */

static void write_index(struct document *document) {
    static const char *const forms[] = {"%d", "\"%d\"", "\" %d\"", "\"+%d \"", "%d.0", "%de0"};
    char text[32];
    if (document->mistake == MISTAKE_NEGATIVE_INDEX) {
        put(document, draw_once_in(&document->draw, 2) ? "-%d" : "\"-%d\"", 1 + document->index);
    } else if (document->mistake == MISTAKE_FRACTION) {
        put(document, draw_once_in(&document->draw, 2) ? "%d.5" : "\"%dx\"", document->index);
    } else if (document->mistake == MISTAKE_INDEX_KIND) {
        put(document, "%s", draw_once_in(&document->draw, 2) ? "[0]" : "true");
    } else {
        (void)snprintf(text, sizeof(text), forms[draw_below(&document->draw, 6)], document->index);
        put(document, "%s", text);
    }
}

static void write_task(struct document *document) {
    bool type = document->mistake != MISTAKE_NO_TYPE, index = document->mistake != MISTAKE_NO_INDEX;
    bool index_first = draw_once_in(&document->draw, 2);
    mark(document, "{");
    for (int part = 0; part < 2; part++) {
        bool is_index = (part == 0) == index_first;
        if (part && type && index) mark(document, ",");
        if (is_index ? !index : !type) continue;
        key(document, is_index ? "index" : "type");
        if (is_index)
            write_index(document);
        else
            quote(document, document->mistake == MISTAKE_ROLE ? "Worker" : names[document->type]);
    }
    mark(document, "}");
}

/* ---- what is said ---- */

static void draw_address(struct document *document, char *text, int number) {
    static const char *const forms[] = {"host-%d:%d", "10.0.%d.7:%d", "[fd00::%x]:%d", "Node%d.example:%d",
                                        "n_%d.a.b.:%d"};
    int port = document->mistake == MISTAKE_PORT && number == 0 ? 65536 : 1 + (int)draw_below(&document->draw, 65535);
    (void)snprintf(text, ADDRESS, forms[draw_below(&document->draw, 5)], number, port);
}

static void draw_cluster(struct document *document) {
    struct draw *draw = &document->draw;
    int number = 0;
    document->counts[LS_TASK_CHIEF] = document->mistake == MISTAKE_TWO_CHIEFS ? 2 : (int)draw_below(draw, 2);
    document->counts[LS_TASK_WORKER] = 2 + (int)draw_below(draw, MOST_TASKS - 2);
    document->counts[LS_TASK_PS] = document->mistake == MISTAKE_ABSENT_ROLE ? 0 : (int)draw_below(draw, 4);
    document->counts[LS_TASK_EVALUATOR] = (int)draw_below(draw, 2);
    for (int role = LS_TASK_CHIEF; role < ROLES; role++) {
        document->maps[role] = draw_once_in(draw, 3) || (document->mistake == MISTAKE_HOLE && role == LS_TASK_WORKER);
        for (int task = 0; task < document->counts[role]; task++)
            draw_address(document, document->addresses[role][task], number++);
    }
    if (document->mistake == MISTAKE_EQUAL_ADDRESS)
        memcpy(document->addresses[LS_TASK_WORKER][1], document->addresses[LS_TASK_WORKER][0], ADDRESS);
}

/* Some role that has tasks; with a hole, one that takes part in training. */
static void draw_task(struct document *document) {
    struct draw *draw = &document->draw;
    do document->type = (enum ls_task_type)(1 + draw_below(draw, document->mistake == MISTAKE_HOLE ? 2 : ROLES - 1));
    while (!document->counts[document->type]);
    document->index = (int)draw_below(draw, (size_t)document->counts[document->type]);
    if (document->mistake == MISTAKE_HIGH_INDEX)
        document->index = document->counts[document->type] + (int)draw_below(draw, 5);
    if (document->mistake == MISTAKE_ABSENT_ROLE) document->type = LS_TASK_PS;
}

static void write_part(struct document *document, int part) {
    static const char *const junk[] = {"null", "[1, {\"a\": []}]", "{\"cluster\": {\"worker\": []}}", "-1.5e3",
                                       "\"}\""};
    if (part == 0) {
        key(document, draw_once_in(&document->draw, 4) ? "sparseCluster" : "cluster");
        write_cluster(document);
    } else if (part == 1) {
        key(document, "task");
        write_task(document);
    } else if (part == 2) {
        key(document, "environment");
        put(document, "%s", junk[draw_below(&document->draw, 5)]);
    } else {
        key(document, "rpc_layer");
        quote(document, document->mistake == MISTAKE_RPC_LAYER ? "grpc+verbs" : "grpc");
    }
}

static bool leaves_out(struct document *document, int part) {
    if (part == 0) return document->local;
    if (part == 1) return document->mistake == MISTAKE_NO_TASK || (document->local && draw_once_in(&document->draw, 2));
    return !(part == 3 && document->mistake == MISTAKE_RPC_LAYER) && !draw_once_in(&document->draw, 3);
}

static void write_document(struct document *document) {
    int order[4];
    bool first = true;
    shuffle(&document->draw, order, 4);
    mark(document, "{");
    for (int i = 0; i < 4; i++) {
        if (leaves_out(document, order[i])) continue;
        for (int again = 0; again < 1 + (document->mistake == MISTAKE_TWICE && order[i] == 1); again++) {
            if (!first) mark(document, ",");
            first = false;
            write_part(document, order[i]);
        }
    }
    put(document, "}");
    if (document->mistake == MISTAKE_TAIL) put(document, "%s", draw_once_in(&document->draw, 2) ? "}" : "x");
    if (document->mistake == MISTAKE_CUT)
        document->text[1 + strspn(document->text, " \n\t\r") + draw_below(&document->draw, document->used - 8)] = 0;
}

void document_draw(struct document *document, uint64_t seed) {
    memset(document, 0, sizeof(*document));
    document->draw = draw_from(seed, 0);
    if (draw_once_in(&document->draw, 2)) document->mistake = (enum mistake)draw_below(&document->draw, MISTAKES);
    document->local = !document->mistake && draw_once_in(&document->draw, 16);
    draw_cluster(document);
    draw_task(document);
    write_document(document);
}
