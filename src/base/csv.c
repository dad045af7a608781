/* A row is copied without its quotes; the text itself stays as it is, and may be read once more. */
#define _GNU_SOURCE
#include "base/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/memory.h"
#include "base/plain.h"
#include "base/status.h"

#define FIRST_ROOM 256

static ls_status fail_row(const struct ls_csv *csv, int64_t line, const char *what) {
    return ls_fail(LS_DATA_LOSS, "'%s' line %lld: %s", csv->path, (long long)line, what);
}

/* ---- the row ---- */

static ls_status put(struct ls_csv *csv, char byte) {
    if (LS_GROW(csv->text, csv->room, csv->used + 1, FIRST_ROOM, csv->path))
        return ls_fail_memory(csv->path, csv->room);
    csv->text[csv->used++] = byte;
    return LS_OK;
}

static ls_status begin_cell(struct ls_csv *csv) {
    if (LS_GROW(csv->starts, csv->start_room, csv->count + 1, FIRST_ROOM, csv->path))
        return ls_fail_memory(csv->path, csv->start_room);
    csv->starts[csv->count++] = csv->used;
    return LS_OK;
}

/* ---- bytes ---- */

static bool ended(const struct ls_csv *csv) {
    return csv->at >= csv->size;
}

static bool at_line_end(const struct ls_csv *csv) {
    return ended(csv) || csv->bytes[csv->at] == '\n' || csv->bytes[csv->at] == '\r';
}

/* Steps over a byte, and counts lines. */
static char step_over(struct ls_csv *csv) {
    char byte = csv->bytes[csv->at++];
    bool pair = byte == '\r' && !ended(csv) && csv->bytes[csv->at] == '\n';
    csv->next_line += byte == '\n' || (byte == '\r' && !pair);
    return byte;
}

static void skip_blanks(struct ls_csv *csv) {
    while (!ended(csv) && csv->bytes[csv->at] == ' ') csv->at++;
}

static ls_status check_text(const struct ls_csv *csv) {
    for (size_t i = 0, length; i < csv->used; i += length) {
        length = ls_plain_character(csv->text + i);
        if (!length) return fail_row(csv, csv->line, "it is not UTF-8: save the file as UTF-8");
    }
    return LS_OK;
}

/* ---- cells ---- */

static ls_status read_quoted(struct ls_csv *csv) {
    int64_t opened = csv->next_line;
    ls_status status = LS_OK;
    for (csv->at++; !status; status = put(csv, step_over(csv))) {
        if (ended(csv)) return fail_row(csv, opened, "a quote is opened and not closed");
        if (csv->bytes[csv->at] == '\0') break;
        if (csv->bytes[csv->at] != '"') continue;
        csv->at++;
        if (ended(csv) || csv->bytes[csv->at] != '"') break;
    }
    skip_blanks(csv);
    if (status || at_line_end(csv) || csv->bytes[csv->at] == csv->separator) return status;
    if (csv->bytes[csv->at] == '\0') return fail_row(csv, csv->next_line, "it has a zero byte, and is no text");
    return fail_row(csv, csv->next_line, "text follows a closed quote; a quote in a quoted cell is written twice");
}

static ls_status read_plain(struct ls_csv *csv) {
    size_t begun = csv->used;
    ls_status status = LS_OK;
    while (!status && !at_line_end(csv) && csv->bytes[csv->at] != csv->separator && csv->bytes[csv->at])
        status = put(csv, csv->bytes[csv->at++]);
    while (csv->used > begun && csv->text[csv->used - 1] == ' ') csv->used--;
    if (status || at_line_end(csv) || csv->bytes[csv->at]) return status;
    return fail_row(csv, csv->next_line, "it has a zero byte, and is no text");
}

ls_status ls_csv_next(struct ls_csv *csv, bool *more) {
    csv->count = csv->used = 0;
    while (!ended(csv) && at_line_end(csv)) (void)step_over(csv);
    *more = !ended(csv);
    csv->line = csv->next_line;
    for (bool last = !*more; !last;) {
        ls_status status = begin_cell(csv);
        skip_blanks(csv);
        bool quoted = !ended(csv) && csv->bytes[csv->at] == '"';
        if (!status) status = quoted ? read_quoted(csv) : read_plain(csv);
        if (!status) status = put(csv, '\0');
        if (status) return status;
        last = at_line_end(csv);
        if (!last) csv->at++; /* the separator */
    }
    return check_text(csv);
}

const char *ls_csv_cell(const struct ls_csv *csv, size_t place) {
    return csv->text + csv->starts[place];
}

/* ---- the whole ---- */

/* Which one the first row has most of, outside quotes: a comma may be a decimal one. */
static char find_separator(const struct ls_csv *csv) {
    static const char candidates[] = "\t;,";
    size_t counts[3] = {0}, best = 0;
    bool quoted = false;
    for (size_t i = csv->at; i < csv->size && (quoted || !strchr("\r\n", csv->bytes[i])); i++) {
        const char *found = csv->bytes[i] ? strchr(candidates, csv->bytes[i]) : NULL;
        if (csv->bytes[i] == '"') quoted = !quoted;
        if (found && !quoted) counts[found - candidates]++;
    }
    for (size_t i = 1; i < 3; i++)
        if (counts[i] > counts[best]) best = i;
    return counts[best] ? candidates[best] : ',';
}

ls_status ls_csv_begin(struct ls_csv *csv, const char *path, const char *bytes, size_t size, char separator) {
    *csv = (struct ls_csv){.path = path, .bytes = bytes, .size = size, .line = 1, .next_line = 1};
    if (separator && strchr("\"\r\n ", separator))
        return ls_fail(LS_INVALID_ARGUMENT, "separator is '%c': it is neither a quote, nor a blank, nor a line's end",
                       separator);
    if (size >= 2 && (!memcmp(bytes, "\xFF\xFE", 2) || !memcmp(bytes, "\xFE\xFF", 2)))
        return fail_row(csv, 1, "it is UTF-16: save the file as UTF-8");
    if (size >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3)) csv->at = 3;
    while (!ended(csv) && at_line_end(csv)) (void)step_over(csv);
    csv->separator = separator ? separator : find_separator(csv);
    return LS_OK;
}

bool ls_csv_number(const char *text, double *number) {
    char *end;
    if (!*text || text[strspn(text, "0123456789+-.eE")]) return false;
    *number = ls_plain_number(text, &end);
    return end != text && !*end && isfinite(*number);
}

void ls_csv_end(struct ls_csv *csv) {
    ls_free(csv->text);
    ls_free(csv->starts);
    *csv = (struct ls_csv){0};
}
