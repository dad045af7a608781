/* Rows of a CSV text (RFC 4180), one after the other. Lines end with LF, CRLF or CR; empty ones are passed over, and so
 * is a byte order mark. Blanks around a cell do not belong to it unless they are quoted. A fault is one DATA_LOSS with
 * path and line. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_csv {
    const char *path, *bytes; /* borrowed */
    size_t size, at;
    char separator;
    int64_t line, next_line; /* of the row's first byte, from 1, and of the byte at */
    char *text;              /* owns: the row's cells, each ended by a zero */
    size_t used, room;
    size_t *starts; /* owns: [count] where cells begin in text */
    size_t count, start_room;
};
/* separator 0: tab, ';' or ',', which the first row has most of. End it with ls_csv_end, whatever is returned. */
ls_status ls_csv_begin(struct ls_csv *csv, const char *path, const char *bytes, size_t size, char separator);
/* Reads a row; false: there is none any more. */
ls_status ls_csv_next(struct ls_csv *csv, bool *more);
/* A cell of the row, UTF-8, until the next one is read. */
const char *ls_csv_cell(const struct ls_csv *csv, size_t place);
/* True if text is a decimal number that is finite. */
bool ls_csv_number(const char *text, double *number);
void ls_csv_end(struct ls_csv *csv);
