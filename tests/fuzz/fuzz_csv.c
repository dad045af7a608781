/* CSV from any bytes: each row ends with cells that are UTF-8 and lie in the text, or with one error that names a line.
 * Read once more, quoted, the rows are the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void put_quoted(FILE *out, const char *cell) {
    (void)fputc('"', out);
    for (; *cell; cell++) (void)fprintf(out, *cell == '"' ? "\"%c" : "%c", *cell);
    (void)fputc('"', out);
}

/* Writes the rows that can be read, with all cells quoted. */
static ls_status read_rows(const char *bytes, size_t size, char *separator, FILE *out) {
    struct ls_csv csv;
    bool more = true;
    int64_t line = 0;
    ls_status status = ls_csv_begin(&csv, "input", bytes, size, *separator);
    *separator = csv.separator;
    while (!status && more) {
        status = ls_csv_next(&csv, &more);
        if (status || !more) break;
        require(csv.count >= 1 && csv.line > line);
        line = csv.line;
        for (size_t i = 0; i < csv.count; i++) {
            double number;
            if (i) (void)fputc(csv.separator, out);
            put_quoted(out, ls_csv_cell(&csv, i));
            (void)ls_csv_number(ls_csv_cell(&csv, i), &number);
        }
        (void)fputc('\n', out);
    }
    ls_csv_end(&csv);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char separators[] = {0, ',', ';', '\t', '|'};
    char *first = NULL, *second = NULL;
    size_t lengths[2] = {0};
    char separator = size ? separators[*data % sizeof(separators)] : 0;
    FILE *out = open_memstream(&first, &lengths[0]);
    ls_status status = read_rows((const char *)data, size, &separator, out);
    require(!status || status == LS_DATA_LOSS);
    require(!status || strstr(ls_error(), "'input' line "));
    (void)fclose(out);
    out = open_memstream(&second, &lengths[1]);
    require(read_rows(first, lengths[0], &separator, out) == LS_OK);
    (void)fclose(out);
    require(lengths[0] == lengths[1] && !memcmp(first, second, lengths[0]));
    free(first);
    free(second);
    return 0;
}
