/* A row a rank, with a bar of its time: compute, wire, wait. Columns stand in the order of the table and are chosen by
 * their importance, as many as the terminal has room for; no line is wider than it. */
#include "tools/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/plain.h"

#define CELL     32
#define WIDE     1000 /* columns, where there is no terminal */
#define BAR_MOST 40
#define INDENT   6

enum column {
    RANK,
    TASK,
    STATE,
    STEP,
    PACE,
    BAR,
    COMPUTE,
    WAIT,
    WIRE,
    CALLS,
    BYTES,
    RATE,
    MEMORY,
    UP,
    RESTARTS,
    COLUMNS
};
static const struct {
    const char *title;
    int width; /* negative: from the left */
    bool server;
    const char *count, *amount; /* the field of an answer that the column has, as a number or as bytes */
} columns[COLUMNS] = {
    [RANK] = {"rank", 4, true},
    [TASK] = {"task", -11, true},
    [STATE] = {"state", -7, true},
    [STEP] = {"step", 8, false, "step"},
    [PACE] = {"ms/step", 8, false},
    [BAR] = {"", 0, false},
    [COMPUTE] = {"compute", 7, false},
    [WAIT] = {"wait", 5, false},
    [WIRE] = {"wire", 5, false},
    [CALLS] = {"calls", 9, true, "collectives"},
    [BYTES] = {"bytes", 8, true, NULL, "bytes"},
    [RATE] = {"rate", 10, true},
    [MEMORY] = {"memory", 8, true, NULL, "resident"},
    [UP] = {"up", 9, true},
    [RESTARTS] = {"restarts", 8, false, "restarts"},
};
static const enum column importance[] = {RANK,  TASK,   BAR, WAIT, COMPUTE, WIRE,  PACE,    STEP,
                                         STATE, MEMORY, UP,  RATE, CALLS,   BYTES, RESTARTS};

struct layout {
    bool shown[COLUMNS];
    int bar, width;
};

static struct layout choose_columns(int width) {
    struct layout layout = {.width = width ? width : WIDE, .bar = !width || width > 72 ? 24 : 10};
    int used = 0;
    for (size_t i = 0; i < sizeof(importance) / sizeof(importance[0]); i++) {
        enum column column = importance[i];
        int wide = column == BAR ? layout.bar : abs(columns[column].width);
        if (used + wide + (used > 0) > layout.width) break;
        used += wide + (used > 0);
        layout.shown[column] = true;
    }
    if (width) layout.bar += layout.width - used;
    if (layout.bar > BAR_MOST) layout.bar = BAR_MOST;
    return layout;
}

/* "1.2 GB" */
static void put_amount(char text[CELL], double bytes, const char *unit) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    int i = 0;
    for (; bytes >= 999.5 && i < 4; i++) bytes /= 1000;
    (void)ls_plain_text(text, CELL, "%.*f %s%s", i && bytes < 99.5 ? 1 : 0, bytes, units[i], unit);
}

static void put_count(char text[CELL], int64_t count, int width) {
    if (snprintf(text, CELL, "%lld", (long long)count) > width) (void)ls_plain_text(text, CELL, "%.1e", (double)count);
}

static void fill_cell(char text[CELL], enum column column, const struct ls_top_table *table, int rank) {
    const struct ls_top_row *row = &table->rows[rank];
    const struct ls_probe *now = row->now;
    double pace = row->steps > 0 ? 1e3 * row->seconds / (double)row->steps : 0;
    const double shares[] = {1 - row->inside, row->inside - table->least, table->least};
    *text = '\0';
    if (rank >= table->config->num_workers && !columns[column].server) return;
    const char *count = columns[column].count, *amount = columns[column].amount;
    if (count) return put_count(text, ls_probe_number(now, count), columns[column].width);
    if (amount) return put_amount(text, (double)ls_probe_number(now, amount), "");
    switch (column) {
    case RANK:
        (void)snprintf(text, CELL, rank < table->config->num_workers ? "%d" : "-", rank);
        break;
    case TASK:
        (void)snprintf(text, CELL, "%s", now->task->name);
        break;
    case STATE:
        (void)ls_probe_text(now, "phase", text, CELL);
        break;
    case PACE:
        (void)ls_plain_text(text, CELL, pace <= 0 ? "-" : pace < 1e4 ? "%.2f" : "%.1e", pace);
        break;
    case COMPUTE:
    case WAIT:
    case WIRE:
        (void)ls_plain_text(text, CELL, "%.0f%%", 100 * shares[column - COMPUTE]);
        break;
    case RATE:
        put_amount(text, (double)row->bytes / row->seconds, "/s");
        break;
    case UP:
        (void)ls_plain_text(text, CELL, "%.0f s", ls_top_up(now));
        break;
    default:
        break;
    }
}

/* ---- bars ---- */

enum { MARK_COMPUTE, MARK_WIRE, MARK_WAIT };
static const char *const marks[2][3] = {{"\u2588", "\u2592", "\u2591"}, {"#", "=", "."}};

static void print_bar(FILE *out, const struct ls_top_table *table, const struct ls_top_row *row, int width,
                      bool ascii) {
    int compute = (int)((1 - row->inside) * width + 0.5);
    int wire = (int)((1 - row->inside + table->least) * width + 0.5);
    for (int i = 0; i < width; i++)
        (void)fputs(marks[ascii][i < compute ? MARK_COMPUTE : i < wire ? MARK_WIRE : MARK_WAIT], out);
}

/* ---- lines ---- */

/* The rest of a line of which so much is used, folded between words. */
static void print_folded(FILE *out, int width, int used, const char *text) {
    const int indent = INDENT;
    bool first = true; /* of its line */
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (!first && used + 1 + word > width) {
            (void)fprintf(out, "\n%*s", indent, "");
            used = indent;
            first = true;
        }
        if (word > width - used) word = width - used - !first;
        (void)fprintf(out, first ? "%.*s" : " %.*s", word, text);
        used += word + !first;
        first = false;
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

/* The place of the row stands already. */
static void print_unknown(FILE *out, const struct ls_top_row *row, int width, const char *rank) {
    char text[1024];
    (void)snprintf(text, sizeof(text), "%s: %s", row->now->task->address,
                   *row->now->why ? row->now->why : "it has just started");
    int used = fprintf(out, "%4s %-11.11s ", rank, row->now->task->name);
    print_folded(out, width, used, text);
}

static void print_top_row(FILE *out, const struct ls_top_table *table, int rank, const struct layout *layout,
                          bool ascii) {
    const struct ls_top_row *row = &table->rows[rank];
    char text[CELL];
    fill_cell(text, RANK, table, rank);
    if (!row->known) return print_unknown(out, row, layout->width, text);
    for (enum column column = RANK; column < COLUMNS; column++) {
        if (!layout->shown[column]) continue;
        (void)fputs(column ? " " : "", out);
        int width = columns[column].width;
        fill_cell(text, column, table, rank);
        if (column != BAR)
            (void)fprintf(out, "%*.*s", width, abs(width), text);
        else if (rank < table->config->num_workers)
            print_bar(out, table, row, layout->bar, ascii);
        else
            (void)fprintf(out, "%*s", layout->bar, "");
    }
    (void)fputc('\n', out);
}

static void print_titles(FILE *out, const struct layout *layout) {
    for (enum column column = RANK; column < COLUMNS; column++)
        if (layout->shown[column])
            (void)fprintf(out, "%s%*s", column ? " " : "", column == BAR ? layout->bar : columns[column].width,
                          columns[column].title);
    (void)fputc('\n', out);
}

/* ---- which rows ---- */

static const struct ls_top_row *row_of(const void *entry) {
    return *(const struct ls_top_row *const *)entry;
}

/* Those for whom the others wait come first. */
static int compare_rows(const void *left, const void *right) {
    const struct ls_top_row *a = row_of(left), *b = row_of(right);
    if (a->known != b->known) return a->known - b->known;
    return a->inside < b->inside ? -1 : a->inside > b->inside ? 1 : (a > b) - (a < b);
}

/* Marks so many of the workers. */
static void choose_rows(const struct ls_top_table *table, int count, bool *chosen) {
    int workers = table->config->num_workers;
    const struct ls_top_row **order = calloc((size_t)workers, sizeof(*order));
    for (int i = 0; order && i < workers; i++) order[i] = &table->rows[i];
    if (order) qsort(order, (size_t)workers, sizeof(*order), compare_rows); /* NOLINT(bugprone-sizeof-expression) */
    for (int i = 0; i < count && i < workers; i++) chosen[order ? order[i] - table->rows : i] = true;
    free(order);
}

static void print_rows(FILE *out, const struct ls_top_table *table, const struct layout *layout,
                       const struct ls_top_screen *screen) {
    enum { OTHERS = 8 }; /* lines around them */
    int workers = table->config->num_workers, servers = table->config->num_servers;
    int room = screen->lines ? screen->lines - OTHERS - servers : workers;
    int count = room < 4 ? 4 : room;
    bool *chosen = calloc((size_t)workers, sizeof(*chosen));
    if (chosen && count < workers) choose_rows(table, count, chosen);
    for (int rank = 0; rank < workers; rank++)
        if (!chosen || count >= workers || chosen[rank]) print_top_row(out, table, rank, layout, screen->ascii);
    if (chosen && count < workers) (void)fprintf(out, "%d more that wait longer\n", workers - count);
    for (int i = 0; i < servers; i++) print_top_row(out, table, workers + i, layout, screen->ascii);
    free(chosen);
}

/* ---- the whole ---- */

/* "0-2, 5" of those who are in one collective for a second. */
static void print_stuck(FILE *out, const struct ls_top_table *table, int width) {
    char *text = NULL;
    size_t size = 0;
    double longest = 0;
    FILE *list = open_memstream(&text, &size);
    if (!list) return;
    for (int rank = 0, from = -1; rank <= table->config->num_workers; rank++) {
        bool stuck = rank < table->config->num_workers && table->rows[rank].stuck >= 1;
        if (stuck && table->rows[rank].stuck > longest) longest = table->rows[rank].stuck;
        if (stuck && from < 0) {
            (void)fprintf(list, " %d", from = rank);
        } else if (!stuck && from >= 0) {
            if (rank - 1 > from) (void)fprintf(list, "-%d", rank - 1);
            from = -1;
        }
    }
    if (!fclose(list) && longest > 0) {
        char line[4096];
        (void)ls_plain_text(line, sizeof(line), "in one collective since %.1f s: rank%.4000s", longest, text);
        print_folded(out, width, 0, line);
    }
    free(text);
}

static void print_straggler(FILE *out, const struct ls_top_table *table, int width) {
    char line[256] = "no straggler";
    if (table->straggler >= 0)
        (void)ls_plain_text(line, sizeof(line), "straggler: rank %d, for which others wait %.0f%% of the time",
                            table->straggler, 100 * (table->most - table->least));
    else if (table->unknown)
        (void)snprintf(line, sizeof(line), "%d did not answer: the others may be waiting for it", table->unknown);
    print_folded(out, width, 0, line);
}

void ls_top_print(FILE *out, const struct ls_top_table *table, const struct ls_top_screen *screen) {
    const struct layout layout = choose_columns(screen->columns);
    const char *const *mark = marks[screen->ascii];
    (void)fprintf(out, "%d workers, generation %lld\n", table->config->num_workers,
                  (long long)ls_top_generation(table));
    print_titles(out, &layout);
    print_rows(out, table, &layout, screen);
    (void)fprintf(out, "%s compute  %s wire  %s wait\n", mark[MARK_COMPUTE], mark[MARK_WIRE], mark[MARK_WAIT]);
    print_stuck(out, table, layout.width);
    print_straggler(out, table, layout.width);
}
