/* A CSV file as examples, in memory once it is open: eight bytes a number, four a word. The text is read twice: the
 * first time tells what the columns are. Reading changes nothing, so any number of threads may. */
#include "data/sources.h"

#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "data/files.h"
#include "data/reader.h"
#include "data/role.h"
#include "data/dataset.h"

struct table {
    struct ls_source source;
    struct ls_transform transform;
    bool targeted; /* the file has the target's column */
    char *text;    /* owns: ls_dataset_transform's */
};

/* ---- examples ---- */

static ls_status targets_of_row(const struct ls_source *source, int64_t index, const struct ls_targets *targets) {
    const struct table *table = (const struct table *)source;
    const struct ls_column *target = &table->transform.target;
    if (source->targets.numbers)
        *targets->numbers = (float)target->numbers[index];
    else
        *targets->labels = table->targeted ? target->codes[index] : 0;
    return LS_OK;
}

static ls_status read_example_row(const struct ls_source *source, int64_t index, float *features,
                                  const struct ls_targets *targets) {
    const struct table *table = (const struct table *)source;
    for (int64_t i = 0; i < table->transform.count; i++) {
        ls_column_read(&table->transform.columns[i], index, features);
        features += ls_column_width(&table->transform.columns[i]);
    }
    return targets_of_row(source, index, targets);
}

static const char *class_name_of_target(const struct ls_source *source, int label) {
    const struct table *table = (const struct table *)source;
    return table->transform.target.categories.list[label]->name;
}

static void free_table(struct ls_source *source) {
    struct table *table = (struct table *)source;
    ls_transform_free(&table->transform);
    ls_free(table->text);
    ls_free(table);
}

static const struct ls_source_ops table_ops = {
    .read = read_example_row, .free = free_table, .class_name = class_name_of_target, .targets = targets_of_row};

/* ---- the header ---- */

struct opening {
    const char *path;
    const ls_dataset_options *options;
    bool needs_target;
    struct table *table;
    uint8_t *bytes; /* owns */
    size_t size;
    struct ls_csv csv;
    struct ls_categories header; /* the columns' names, in their order */
    bool named;                  /* the first row has them */
    int64_t rows;                /* that are kept */
    int64_t missing, missing_line, missing_place;
};

static void close_opening(struct opening *opening) {
    ls_csv_end(&opening->csv);
    ls_categories_free(&opening->header);
    ls_free(opening->bytes);
}

static ls_status add_name(struct opening *opening, size_t place) {
    const struct ls_csv *csv = &opening->csv;
    char number[24];
    int32_t found = 0;
    (void)snprintf(number, sizeof(number), "%zu", place + 1);
    const char *name = opening->named ? ls_csv_cell(csv, place) : number;
    if (!*name)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s' line %lld: column %zu has no name (pandas: to_csv with index=False)",
                       csv->path, (long long)csv->line, place + 1);
    ls_status status = ls_categories_add(&opening->header, name, &found);
    if (status || found == (int32_t)place) return status;
    return ls_fail(LS_INVALID_ARGUMENT, "'%s' line %lld: columns %d and %zu are both named '%.80s'", csv->path,
                   (long long)csv->line, (int)found + 1, place + 1, name);
}

static ls_status read_names(struct opening *opening) {
    struct ls_csv *csv = &opening->csv;
    bool more = false;
    double number;
    ls_status status =
        ls_csv_begin(csv, opening->path, (const char *)opening->bytes, opening->size, opening->options->separator);
    if (!status) status = ls_csv_next(csv, &more);
    if (!status && !more) return ls_fail(LS_INVALID_ARGUMENT, "'%s' is empty", opening->path);
    for (size_t i = 0; !status && i < csv->count; i++)
        opening->named = opening->named || !ls_csv_number(ls_csv_cell(csv, i), &number);
    for (size_t i = 0; !status && i < csv->count; i++) status = add_name(opening, i);
    return status;
}

/* "'x.csv' has no column 'd'WHY; it has a, b, c", and that a row of examples may have been taken for names. */
static ls_status fail_column(const struct opening *opening, const char *name, const char *why) {
    char names[500] = "", what[128] = "no target is named (--target)";
    size_t used = 0;
    bool numbers = false;
    double number;
    for (int64_t i = 0; i < opening->header.count; i++) {
        const char *other = opening->header.list[i]->name;
        numbers = numbers || (opening->named && ls_csv_number(other, &number));
        if (used + 80 < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, i ? ", %.60s" : "%.60s", other);
    }
    if (name) (void)snprintf(what, sizeof(what), "it has no column '%.80s'", name);
    return ls_fail(LS_INVALID_ARGUMENT, "'%s': %s%s; its columns are %s%s", opening->path, what, why, names,
                   numbers ? ": the first row seems to be an example, and names are to be there" : "");
}

/* ---- which columns ---- */

static ls_status take_column(const struct opening *opening, struct ls_column *column, int64_t place) {
    column->place = place;
    if (!column->name) column->name = ls_strdup(opening->header.list[place]->name);
    return column->name ? LS_OK : ls_fail_memory("a column", 1);
}

/* Marks the columns to leave out. */
static ls_status leave_out_columns(const struct opening *opening, bool *left_out) {
    const char *text = opening->options->without;
    struct ls_csv names;
    bool more = false;
    if (!text) return LS_OK;
    ls_status status = ls_csv_begin(&names, "without", text, strlen(text), ',');
    if (!status) status = ls_csv_next(&names, &more);
    for (size_t i = 0; !status && more && i < names.count; i++) {
        int32_t place = ls_categories_find(&opening->header, ls_csv_cell(&names, i));
        if (place >= 0) left_out[place] = true;
        if (place < 0) status = fail_column(opening, ls_csv_cell(&names, i), " to leave out");
    }
    ls_csv_end(&names);
    return status;
}

/* The target is what it was in training. */
static ls_status take_trained_target(struct opening *opening) {
    const ls_dataset_options *options = opening->options;
    struct ls_column *trained = &opening->table->transform.target;
    const char *target = options->target;
    if (!target && !trained->name) return LS_OK;
    if (target && (!trained->name || strcmp(target, trained->name) != 0))
        return ls_fail(LS_INVALID_ARGUMENT, "target is '%s', and the model was trained for '%s'", target,
                       trained->name ? trained->name : "");
    if (options->target_type != LS_TARGET_AUTO && trained->words != (options->target_type == LS_TARGET_CLASSES))
        return ls_fail(LS_INVALID_ARGUMENT, "target_type is %s, and the model was trained with '%s' as %s",
                       trained->words ? "numbers" : "classes", trained->name, trained->words ? "classes" : "numbers");
    trained->place = ls_categories_find(&opening->header, trained->name);
    opening->table->targeted = trained->place >= 0;
    bool lacks = target && opening->needs_target && !opening->table->targeted;
    return lacks ? fail_column(opening, target, ", which is the target") : LS_OK;
}

/* Finds the places of columns that a model was trained with. */
static ls_status take_trained(struct opening *opening) {
    struct ls_transform *transform = &opening->table->transform;
    LS_CLEANUP(ls_free_pointer) bool *left_out = ls_alloc((size_t)opening->header.count);
    if (!left_out) return ls_fail_memory("columns", (size_t)opening->header.count);
    ls_status status = ls_transform_read(opening->options->transform, transform);
    if (!status) status = leave_out_columns(opening, left_out);
    for (int64_t i = 0; !status && i < transform->count; i++) {
        const char *name = transform->columns[i].name;
        int32_t place = ls_categories_find(&opening->header, name);
        transform->columns[i].place = place;
        if (place < 0) return fail_column(opening, name, ", with which the model was trained");
        if (left_out[place])
            return ls_fail(LS_INVALID_ARGUMENT, "column '%s' is left out, and the model was trained with it", name);
    }
    return status ? status : take_trained_target(opening);
}

static ls_status take_target(struct opening *opening, bool *left_out) {
    struct ls_column *target = &opening->table->transform.target;
    const char *name = opening->options->target;
    if (!name) return fail_column(opening, NULL, "");
    int32_t place = ls_categories_find(&opening->header, name);
    if (place < 0) return fail_column(opening, name, ", which is the target");
    if (left_out[place]) return ls_fail(LS_INVALID_ARGUMENT, "column '%s' is the target, and is left out", name);
    left_out[place] = true;
    opening->table->targeted = true;
    target->seen = ls_alloc(LS_COLUMN_SMALL);
    return target->seen ? take_column(opening, target, place) : ls_fail_memory("a column", LS_COLUMN_SMALL);
}

static ls_status take_all(struct opening *opening) {
    struct ls_transform *transform = &opening->table->transform;
    size_t count = (size_t)opening->header.count;
    LS_CLEANUP(ls_free_pointer) bool *left_out = ls_alloc(count);
    transform->columns = ls_alloc_array(count, sizeof(*transform->columns));
    if (!left_out || !transform->columns) return ls_fail_memory("columns", count * sizeof(*transform->columns));
    ls_status status = leave_out_columns(opening, left_out);
    if (!status && (opening->needs_target || opening->options->target)) status = take_target(opening, left_out);
    for (size_t i = 0; !status && i < count; i++)
        if (!left_out[i]) status = take_column(opening, &transform->columns[transform->count++], (int64_t)i);
    if (!status && !transform->count)
        status = ls_fail(LS_INVALID_ARGUMENT, "'%s' has no column beside the target", opening->path);
    return status;
}

/* ---- rows ---- */

/* Column i of those in use, the target last; NULL behind them. */
static struct ls_column *column_at(const struct opening *opening, int64_t i) {
    struct ls_transform *transform = &opening->table->transform;
    if (i < transform->count) return &transform->columns[i];
    return i == transform->count && opening->table->targeted ? &transform->target : NULL;
}

static bool lacks_cell(struct opening *opening) {
    bool lacks = false;
    struct ls_column *column;
    for (int64_t i = 0; (column = column_at(opening, i)); i++) {
        if (!ls_column_missing(ls_csv_cell(&opening->csv, (size_t)column->place))) continue;
        if (!opening->missing++) opening->missing_line = opening->csv.line;
        if (opening->missing == 1) opening->missing_place = column->place;
        lacks = true;
    }
    return lacks;
}

static ls_status look_at_row(struct opening *opening, int64_t row) {
    struct ls_column *column;
    (void)row;
    for (int64_t i = 0; (column = column_at(opening, i)); i++) ls_column_look(column, &opening->csv);
    return LS_OK;
}

static ls_status put_row(struct opening *opening, int64_t row) {
    struct ls_column *column;
    ls_status status = LS_OK;
    for (int64_t i = 0; !status && (column = column_at(opening, i)); i++)
        status = ls_column_put(column, &opening->csv, row, opening->options->transform != NULL);
    return status;
}

/* Gives each row without a missing cell to take. */
static ls_status read_rows(struct opening *opening, ls_status (*take)(struct opening *opening, int64_t row)) {
    struct ls_csv *csv = &opening->csv;
    bool more = false;
    ls_csv_end(csv);
    opening->rows = opening->missing = 0;
    ls_status status =
        ls_csv_begin(csv, opening->path, (const char *)opening->bytes, opening->size, opening->options->separator);
    if (!status && opening->named) status = ls_csv_next(csv, &more);
    opening->table->source.damaged = 0;
    while (!status) {
        status = ls_csv_next(csv, &more);
        if (status || !more) break;
        if (csv->count != (size_t)opening->header.count)
            return ls_fail(LS_DATA_LOSS, "'%s' line %lld: it has %zu cells, and the first row %lld", csv->path,
                           (long long)csv->line, csv->count, (long long)opening->header.count);
        bool lacks = lacks_cell(opening);
        opening->table->source.damaged += lacks;
        if (!lacks) status = take(opening, opening->rows++);
    }
    return status;
}

static ls_status check_missing(const struct opening *opening) {
    if (!opening->missing || opening->options->damage == LS_DAMAGE_SKIPPED) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "'%s': %lld cells are missing, the first in line %lld, column '%.80s': fill them in, leave the "
                   "column out (--without), or the rows (LS_DAMAGE_SKIPPED, --skip-damaged)",
                   opening->path, (long long)opening->missing, (long long)opening->missing_line,
                   opening->header.list[opening->missing_place]->name);
}

/* ---- types ---- */

static ls_status decide_target(const struct opening *opening) {
    struct ls_column *target = &opening->table->transform.target;
    ls_target_type type = opening->options->target_type;
    target->words = type == LS_TARGET_CLASSES || (type == LS_TARGET_AUTO && (target->odd || ls_column_counts(target)));
    if (type == LS_TARGET_CLASSES && !target->odd && !target->whole && target->count)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s', column '%s': its numbers are not whole, and are no classes",
                       opening->path, target->name);
    return LS_OK;
}

static ls_status decide_types(const struct opening *opening) {
    struct ls_transform *transform = &opening->table->transform;
    struct ls_column *column;
    for (int64_t i = 0; (column = column_at(opening, i)); i++) {
        column->words = column->odd > 0;
        if (column->odd && !opening->named)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "'%s' line %lld, column %lld: a word, and the first row has numbers alone: it is to have "
                           "the columns' names",
                           opening->path, (long long)column->first_odd, (long long)column->place + 1);
    }
    return transform->target.name ? decide_target(opening) : LS_OK;
}

/* Mean and deviation of the examples that train. */
static ls_status scale_columns(const struct opening *opening) {
    struct ls_transform *transform = &opening->table->transform;
    const struct ls_source *source = &opening->table->source;
    ls_dataset_options options = *opening->options;
    int64_t count = source->count > options.skip ? source->count - options.skip : 0;
    if (options.limit && options.limit < count) count = options.limit;
    LS_CLEANUP(ls_free_pointer) int64_t *kept = NULL;
    options.part = LS_PART_TRAINING;
    ls_status status =
        options.validation_split > 0 && count ? ls_source_draw_part(source, &options, &kept, &count) : LS_OK;
    for (int64_t i = 0; !status && i < transform->count; i++)
        ls_column_scale(&transform->columns[i], kept, options.skip, count);
    return status;
}

static void describe_opened(const struct opening *opening) {
    struct table *table = opening->table;
    const struct ls_column *target = &table->transform.target;
    int64_t width = 0;
    for (int64_t i = 0; i < table->transform.count; i++) width += ls_column_width(&table->transform.columns[i]);
    table->source.shape = (ls_shape){1, {width}};
    table->source.count = opening->rows;
    table->source.unlabelled = !table->targeted;
    table->source.targets.numbers = table->targeted && !target->words;
    table->source.classes = table->targeted && target->words ? (int)target->categories.count : 0;
}

static ls_status read_columns(struct opening *opening) {
    bool trained = opening->options->transform != NULL;
    struct ls_column *column;
    ls_status status = read_rows(opening, look_at_row);
    if (!status) status = check_missing(opening);
    if (!status && !trained) status = decide_types(opening);
    for (int64_t i = 0; !status && (column = column_at(opening, i)); i++)
        status = ls_column_begin(column, opening->rows);
    if (!status) status = read_rows(opening, put_row);
    for (int64_t i = 0; !status && !trained && (column = column_at(opening, i)); i++)
        status = ls_column_end(column, opening->path, opening->rows, column == &opening->table->transform.target);
    if (status) return status;
    describe_opened(opening);
    if (!trained) status = scale_columns(opening);
    return status ? status : ls_transform_write(&opening->table->transform, &opening->table->text);
}

/* ---- opening ---- */

static ls_status open_table(const char *path, const ls_dataset_options *options, bool needs_target,
                            struct table *table) {
    LS_CLEANUP(close_opening) struct opening opening = {path, options, needs_target, table};
    ls_status status = ls_files_has_ending(path, ".gz") ? ls_reader_all(path, &opening.bytes, &opening.size)
                                                        : ls_file_read(path, &opening.bytes, &opening.size);
    if (!status) status = read_names(&opening);
    if (!status) status = options->transform ? take_trained(&opening) : take_all(&opening);
    if (!status) status = read_columns(&opening);
    table->source.transform = table->text;
    return status;
}

static ls_status open_file(const char *path, const ls_dataset_options *options, bool needs_target,
                           ls_dataset **dataset) {
    LS_NEW(struct table, table, "a dataset");
    table->source = (struct ls_source){.ops = &table_ops, .kind = "csv", .split = options->split, .in_memory = true};
    ls_status status = open_table(path, options, needs_target, table);
    return ls_dataset_from_source(status, &table->source, options, dataset);
}

/* The columns of a folder's other files are what they are in its training split. */
static ls_status open_in_folder(const char *folder, const ls_dataset_options *options, bool needs_target,
                                ls_dataset **dataset) {
    ls_dataset_options own = *options, training = *options;
    LS_CLEANUP(ls_free_pointer) char *path = NULL;
    ls_dataset *trained = NULL;
    ls_status status = ls_table_files_find(folder, &own.split, &path);
    if (!status && own.split != LS_TRAIN && !own.transform) {
        training.split = LS_TRAIN;
        training.part = LS_PART_TRAINING;
        training.maps = NULL;
        status = open_in_folder(folder, &training, needs_target, &trained);
        if (!status) own.transform = ls_dataset_transform(trained);
    }
    if (!status) status = open_file(path, &own, needs_target, dataset);
    ls_dataset_free(trained);
    return status;
}

ls_status ls_table_meant(const char *path, const ls_dataset_options *options, bool *meant) {
    bool asked = options->target || options->transform, folder = false;
    bool array = path && (ls_files_has_ending(path, ".npz") || ls_files_has_ending(path, ".npy"));
    *meant = false;
    if (!path || !(ls_table_files_name(path) || (asked && !array))) return LS_OK;
    ls_status status = ls_file_is(path, LS_NAMES_FILES, meant);
    if (!status && asked && !*meant) status = ls_file_is(path, LS_NAMES_FOLDERS, &folder);
    return status || !folder ? status : ls_table_files_present(path, meant);
}

ls_status ls_table_open(const char *path, const ls_dataset_options *options, bool needs_target, ls_dataset **dataset) {
    bool folder = false;
    ls_status status = ls_file_is(path, LS_NAMES_FOLDERS, &folder);
    if (status) return status;
    if (folder) return open_in_folder(path, options, needs_target, dataset);
    if (options->split == LS_TRAIN || (options->split == LS_TEST && options->transform))
        return open_file(path, options, needs_target, dataset);
    return ls_fail(LS_NOT_FOUND, "'%s' is the training split, and has no %s split", path, ls_role_name(options->split));
}

ls_status ls_dataset_csv(const char *path, const ls_dataset_options *options, ls_dataset **dataset) {
    LS_NEED(path, dataset);
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    return status ? status : ls_table_open(path, &filled, true, dataset);
}
