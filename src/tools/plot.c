/* lockstep plot, behind tools.h: reads the logs. plot_svg.c and plot_text.c draw. */
#include "tools/plot.h"

#include <lockstep/tools.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/need.h"
#include "base/plain.h"
#include "base/read_file.h"
#include "base/text.h"

#define LARGEST 1e200 /* above it differences are infinite */

static void free_plot(struct ls_plot *plot) {
    for (int i = 0; i < plot->count; i++) {
        ls_free(plot->curves[i].metric);
        ls_free(plot->curves[i].x);
        ls_free(plot->curves[i].y);
    }
    for (int i = 0; i < plot->panel_count; i++) ls_free(plot->panels[i]);
    ls_free(plot->curves);
    ls_free(plot->panels);
}

/* ---- reading ---- */

static const char *base_of(const char *metric) {
    return strncmp(metric, "val_", 4) ? metric : metric + 4;
}

/* One of a list with commas; a NULL list has all. */
static bool is_asked(const char *list, const char *metric) {
    size_t length = strlen(metric);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, metric, length) && (!at[length] || at[length] == ',')) return true;
    return !list;
}

static ls_status find_panel(struct ls_plot *plot, const char *metric, int *panel) {
    for (*panel = 0; *panel < plot->panel_count; ++*panel)
        if (!strcmp(plot->panels[*panel], base_of(metric))) return LS_OK;
    plot->panels[*panel] = ls_strdup(base_of(metric));
    if (!plot->panels[*panel]) return ls_fail_memory("a plot", 1);
    plot->panel_count++;
    return LS_OK;
}

/* There are no more panels than curves. */
static ls_status grow_lists(struct ls_plot *plot) {
    int room = plot->room;
    ls_status status = LS_GROW(plot->panels, room, plot->count + 1, 16, "a plot");
    return status ? status : LS_GROW(plot->curves, plot->room, plot->count + 1, 16, "a plot");
}

static ls_status add_curve(struct ls_plot *plot, int file, const char *metric, int64_t room) {
    ls_status status = grow_lists(plot);
    if (status) return status;
    struct ls_plot_curve *curve = &plot->curves[plot->count];
    *curve = (struct ls_plot_curve){.file = file};
    plot->count++;
    curve->metric = ls_strdup(metric);
    curve->x = ls_alloc_array((size_t)room, sizeof(*curve->x));
    curve->y = ls_alloc_array((size_t)room, sizeof(*curve->y));
    if (!curve->metric || !curve->x || !curve->y) return ls_fail_memory("a curve", (size_t)room * sizeof(*curve->x));
    return find_panel(plot, metric, &curve->panel);
}

struct log {
    struct ls_csv csv;
    size_t columns;
    size_t x;         /* the column of epochs; columns: none */
    int first;        /* of its curves */
    size_t *of_curve; /* owns: [curves] their columns */
};

static void close_log(struct log *log) {
    ls_csv_end(&log->csv);
    ls_free(log->of_curve);
}

static ls_status read_columns(struct ls_plot *plot, int file, const char *list, int64_t room, struct log *log) {
    bool more = false;
    double number;
    ls_status status = ls_csv_next(&log->csv, &more);
    if (!status && !more) return ls_fail(LS_INVALID_ARGUMENT, "'%s' is empty", plot->paths[file]);
    log->columns = log->x = log->csv.count;
    log->of_curve = ls_alloc_array(log->columns, sizeof(*log->of_curve));
    if (!status && !log->of_curve) status = ls_fail_memory("a plot", log->columns);
    for (size_t i = 0; !status && i < log->columns; i++) {
        const char *name = ls_csv_cell(&log->csv, i);
        if (ls_csv_number(name, &number))
            return ls_fail(LS_INVALID_ARGUMENT, "'%s' line 1: '%s' is no name: the first row has the columns' names",
                           plot->paths[file], name);
        if (!strcmp(name, "epoch")) log->x = i;
        if (!strcmp(name, "epoch") || !is_asked(list, name)) continue;
        log->of_curve[plot->count - log->first] = i;
        status = add_curve(plot, file, name, room);
    }
    plot->epochs = plot->epochs && log->x < log->columns;
    return status;
}

static bool is_no_value(const char *cell) {
    static const char *const words[] = {"", "nan", "-nan", "inf", "-inf", "NA"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (ls_plain_same(cell, words[i])) return true;
    return false;
}

static ls_status read_cell(const struct log *log, size_t column, double *value) {
    const char *cell = ls_csv_cell(&log->csv, column);
    *value = NAN;
    if (is_no_value(cell)) return LS_OK;
    bool number = ls_csv_number(cell, value);
    if (number && fabs(*value) > LARGEST) *value = NAN;
    if (number) return LS_OK;
    return ls_fail(LS_DATA_LOSS, "'%s' line %lld: '%.80s' is no number", log->csv.path, (long long)log->csv.line, cell);
}

static ls_status read_row(struct ls_plot *plot, struct log *log, int64_t row) {
    double x = (double)row;
    ls_status status = log->x < log->columns ? read_cell(log, log->x, &x) : LS_OK;
    for (int i = log->first; i < plot->count && !status; i++) {
        struct ls_plot_curve *curve = &plot->curves[i];
        curve->x[curve->count] = x;
        status = read_cell(log, log->of_curve[i - log->first], &curve->y[curve->count]);
        curve->count++;
    }
    return status;
}

/* A row at the end that is being written is left out. */
static ls_status read_rows_of_log(struct ls_plot *plot, struct log *log) {
    bool more = true;
    ls_status status = LS_OK;
    for (int64_t row = 0; !status; row++) {
        status = ls_csv_next(&log->csv, &more);
        if (status || !more) break;
        char last = log->csv.bytes[log->csv.size - 1];
        bool torn = log->csv.at == log->csv.size && last != '\n' && last != '\r';
        if (torn && log->csv.count < log->columns) break;
        if (log->csv.count != log->columns)
            return ls_fail(LS_DATA_LOSS, "'%s' line %lld: it has %zu cells, and the first row %zu", log->csv.path,
                           (long long)log->csv.line, log->csv.count, log->columns);
        status = read_row(plot, log, row);
    }
    return status;
}

static ls_status read_log(struct ls_plot *plot, int file, const char *list) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    LS_CLEANUP(close_log) struct log log = {.first = plot->count};
    size_t size = 0;
    int64_t rows = 1;
    ls_status status = ls_read_file_given(NULL, plot->paths[file], SIZE_MAX - 1, &text, &size);
    if (status) return status;
    for (size_t i = 0; i < size; i++) rows += text[i] == '\n' || text[i] == '\r';
    status = ls_csv_begin(&log.csv, plot->paths[file], text, size, 0);
    if (!status) status = read_columns(plot, file, list, rows, &log);
    return status ? status : read_rows_of_log(plot, &log);
}

/* The asked ones must be somewhere. */
static ls_status check_asked(const struct ls_plot *plot, const char *list) {
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int length = (int)strcspn(at, ","), found = 0;
        for (int i = 0; i < plot->count; i++)
            found += !strncmp(plot->curves[i].metric, at, (size_t)length) && !plot->curves[i].metric[length];
        if (!found)
            return ls_fail(LS_INVALID_ARGUMENT, "metric '%.*s' is no column of '%s'%s", length, at, plot->paths[0],
                           plot->path_count > 1 ? " or of what follows" : "");
    }
    if (plot->count) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "'%s' has no column beside 'epoch'", plot->paths[0]);
}

/* ---- what the drawers share ---- */

struct ls_plot_range ls_plot_range_of(const struct ls_plot *plot, int panel, bool along_x) {
    struct ls_plot_range range = {INFINITY, -INFINITY};
    for (int i = 0; i < plot->count; i++) {
        const struct ls_plot_curve *curve = &plot->curves[i];
        for (int64_t j = 0; curve->panel == panel && j < curve->count; j++) {
            double value = along_x ? curve->x[j] : curve->y[j];
            if (!isfinite(curve->y[j]) || !isfinite(curve->x[j])) continue;
            range.low = value < range.low ? value : range.low;
            range.high = value > range.high ? value : range.high;
        }
    }
    if (!(range.low <= range.high)) return (struct ls_plot_range){0, 1};
    if (range.low < range.high) return range;
    double around = fabs(range.low) > 0 ? fabs(range.low) / 10 : 1;
    return (struct ls_plot_range){range.low - around, range.high + around};
}

double ls_plot_step(struct ls_plot_range range, int most) {
    double step = pow(10, floor(log10(range.high / most - range.low / most)));
    static const double times[] = {1, 2, 5};
    for (int i = 0; i < 3; i++)
        if (range.high / step / times[i] - range.low / step / times[i] <= most) return step * times[i];
    return step * 10;
}

bool ls_plot_goes_on(const struct ls_plot_curve *curve, int64_t i) {
    return i > 0 && isfinite(curve->y[i]) && isfinite(curve->y[i - 1]) && curve->x[i] > curve->x[i - 1];
}

bool ls_plot_validates(const struct ls_plot_curve *curve) {
    return !strncmp(curve->metric, "val_", 4);
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The file's name, or its path where another one has that name. */
static const char *name_of_file(const struct ls_plot *plot, int file) {
    const char *path = plot->paths[file];
    for (int i = 0; i < plot->path_count; i++)
        if (i != file && !strcmp(last_part(plot->paths[i]), last_part(path))) return path;
    return last_part(path);
}

void ls_plot_label(const struct ls_plot *plot, const struct ls_plot_curve *curve, char *text, size_t size) {
    bool several = plot->path_count > 1;
    (void)snprintf(text, size, "%s%s%s", several ? name_of_file(plot, curve->file) : "", several ? " " : "",
                   curve->metric);
}

void ls_plot_number(double value, char *text, size_t size) {
    (void)ls_plain_text(text, size, "%.9g", ls_json_rounded(value, 6));
}

/* ---- the whole ---- */

static void write_svg(void *context, FILE *out) {
    ls_plot_svg(context, out);
}

ls_status ls_tools_plot(const char *const *paths, int count, const char *list, const char *output, bool ascii,
                        bool colour, char **text) {
    LS_NEED(paths, text);
    if (count < 1) return ls_fail(LS_INVALID_ARGUMENT, "no file is given");
    for (int i = 0; i < count; i++)
        if (!paths[i]) return ls_fail(LS_INVALID_ARGUMENT, "paths[%d] is NULL", i);
    LS_CLEANUP(free_plot) struct ls_plot plot = {.paths = paths, .path_count = count, .epochs = true};
    ls_status status = LS_OK;
    for (int i = 0; i < count && !status; i++) status = read_log(&plot, i, list);
    if (!status) status = check_asked(&plot, list);
    if (status) return status;
    if (!output) return LS_TEXT(out, ls_plot_text(&plot, ascii, colour, out), "a plot", text);
    return ls_tools_write_file("--output", output, write_svg, &plot);
}
