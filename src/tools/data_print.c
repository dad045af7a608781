/* Prints the facts of a data source: a table, or one JSON object. */
#include "tools/data_facts.h"

#include <string.h>

#include "base/json.h"
#include "base/plain.h"
#include "base/shape.h"
#include "data/sources.h"
#include "data/tokens.h"

#define LINES 40 /* classes in the table at most */
#define WORDS 6  /* of a column, at most */
#define SHOWN 5  /* digits of a number */

/* As a training gets it, or the bytes that become that. */
static const char *kept_type(const struct ls_source *source) {
    return source->integers ? "int32" : source->bytes ? "uint8" : "float32";
}

/* ---- the table ---- */

static void print_numbers(const char *what, const struct ls_data_numbers *numbers, FILE *out) {
    if (!numbers->count) return;
    (void)ls_plain_print(out, "  %-9s %.9g to %.9g, mean %.9g, deviation %.9g\n", what,
                         ls_json_rounded(numbers->lowest, SHOWN), ls_json_rounded(numbers->highest, SHOWN),
                         ls_json_rounded(numbers->mean, SHOWN), ls_json_rounded(numbers->deviation, SHOWN));
}

static void print_target_kind(const struct ls_source *source, FILE *out) {
    char text[160];
    ls_target_text(&source->targets, text, sizeof(text));
    if (source->unlabelled)
        (void)fputs("without labels", out);
    else if (source->targets.numbers)
        (void)fprintf(out, "with targets: %s", text);
    else
        (void)fprintf(out, source->windows ? "with a label for each position" : "of %d classes", source->classes);
    if (source->targets.weighted) (void)fputs(", weighted", out);
}

/* Each as a string of JSON, which escapes those that cannot be seen. */
static void print_characters(const struct ls_source *source, int count, FILE *out) {
    (void)fprintf(out, "  %-9s", "characters");
    for (int i = 0; i < count; i++) ls_json_print(out, i ? " %s" : "%s", ls_source_class_name(source, i));
    (void)fputc('\n', out);
}

static void print_tokens(const struct ls_source *source, FILE *out) {
    struct ls_tokens_facts facts;
    if (!ls_tokens_facts(source, &facts)) return;
    (void)fprintf(out, "  %-9s %lld, as %s; a window begins every %lld\n  %-9s %d ids\n", "tokens",
                  (long long)facts.tokens, facts.format, (long long)facts.stride, "words", facts.vocabulary);
    if (facts.characters) print_characters(source, facts.characters, out);
}

static void print_split(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_source *source = facts->data->source;
    char shape[128];
    ls_shape_text(&source->shape, shape, sizeof(shape));
    (void)fprintf(out, "%s: %lld examples ", facts->role, (long long)facts->data->count);
    print_target_kind(source, out);
    (void)fprintf(out, "\n  %-9s %s of %s%s\n", "shape", shape, kept_type(source),
                  source->bytes ? ", read as [0, 1]" : "");
    print_tokens(source, out);
    print_numbers("values", &facts->values, out);
    print_numbers("targets", &facts->targets, out);
    if (facts->sampled < facts->data->count)
        (void)fprintf(out, "  %-9s %lld examples, spread evenly\n", "seen", (long long)facts->sampled);
}

static int classes_of(const struct ls_data_facts *facts, int count) {
    int most = 0;
    for (int i = 0; i < count; i++)
        if (facts[i].counts && facts[i].data->source->classes > most) most = facts[i].data->source->classes;
    return most;
}

static int64_t count_of(const struct ls_data_facts *facts, int class) {
    return facts->counts && class < facts->data->source->classes ? facts->counts[class] : 0;
}

static void print_class(const struct ls_data_facts *facts, int count, int class, FILE *out) {
    const char *name = ls_dataset_class_name(facts->data, class);
    (void)fprintf(out, "%-4d %-20s", class, name ? name : "");
    for (int i = 0; i < count; i++) (void)fprintf(out, " %10lld", (long long)count_of(&facts[i], class));
    (void)fputc('\n', out);
}

static void print_classes(const struct ls_data_facts *facts, int count, FILE *out) {
    int classes = classes_of(facts, count);
    if (!classes) return;
    (void)fprintf(out, "\n%-25s", "class");
    for (int i = 0; i < count; i++) (void)fprintf(out, " %10s", facts[i].role);
    (void)fputc('\n', out);
    for (int i = 0; i < classes && i < LINES; i++) print_class(facts, count, i, out);
    if (classes > LINES) (void)fprintf(out, "and %d more, which --json has\n", classes - LINES);
}

static void print_column(const struct ls_column *column, bool target, FILE *out) {
    (void)fprintf(out, "%-25s %-8s", column->name, column->words ? target ? "classes" : "words" : "numbers");
    for (int64_t i = 0; i < column->categories.count && i < WORDS; i++)
        (void)fprintf(out, i ? ", %s" : " %s", column->categories.list[i]->name);
    if (column->categories.count > WORDS)
        (void)fprintf(out, " and %lld more", (long long)(column->categories.count - WORDS));
    if (!column->words && !target)
        (void)ls_plain_print(out, " mean %.9g, deviation %.9g", ls_json_rounded(column->mean, SHOWN),
                             ls_json_rounded(column->deviation, SHOWN));
    (void)fputs(target ? ", the target\n" : "\n", out);
}

static void print_columns(const struct ls_transform *table, FILE *out) {
    if (!table->count) return;
    (void)fputs("\ncolumn\n", out);
    for (int64_t i = 0; i < table->count; i++) print_column(&table->columns[i], false, out);
    if (table->target.name) print_column(&table->target, true, out);
}

void ls_data_print(const char *name, const struct ls_data_facts *facts, int count, const char *hints, FILE *out) {
    (void)fprintf(out, "'%s': %s\n", name, facts->data->source->kind);
    for (int i = 0; i < count; i++) print_split(&facts[i], out);
    print_columns(&facts->table, out);
    print_classes(facts, count, out);
    if (*hints) (void)fputs("\nhints:\n", out);
    for (size_t length; *hints; hints += length + 1) {
        length = strcspn(hints, "\n");
        (void)fprintf(out, "- %.*s\n", (int)length, hints);
    }
}

/* ---- JSON ---- */

static void put_numbers(const char *what, const struct ls_data_numbers *numbers, FILE *out) {
    if (numbers->count)
        ls_json_print(
            out, ", '%-s': {'lowest': %.9g, 'highest': %.9g, 'mean': %.9g, 'deviation': %.9g, 'not_finite': %lld}",
            what, numbers->lowest, numbers->highest, numbers->mean, numbers->deviation, (long long)numbers->odd);
    else
        ls_json_print(out, ", '%-s': null", what);
}

static void put_classes(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_source *source = facts->data->source;
    (void)fputs(", \"classes\": [", out);
    for (int i = 0; facts->counts && i < source->classes; i++)
        ls_json_print(out, "%-s{'name': %s, 'examples': %lld}", i ? ", " : "", ls_source_class_name(source, i),
                      (long long)facts->counts[i]);
    (void)fputc(']', out);
}

static void put_tokens(const struct ls_source *source, FILE *out) {
    struct ls_tokens_facts facts;
    if (!ls_tokens_facts(source, &facts)) return;
    ls_json_print(out, ", 'tokens': {'format': %s, 'count': %lld, 'stride': %lld, 'vocabulary': %d, 'characters': [",
                  facts.format, (long long)facts.tokens, (long long)facts.stride, facts.vocabulary);
    for (int i = 0; i < facts.characters; i++) ls_json_print(out, i ? ", %s" : "%s", ls_source_class_name(source, i));
    (void)fputs("]}", out);
}

static void put_split(const struct ls_data_facts *facts, FILE *out) {
    const struct ls_source *source = facts->data->source;
    ls_json_print(out, "{'split': %s, 'examples': %lld, 'shape': [", facts->role, (long long)facts->data->count);
    for (int i = 0; i < source->shape.rank; i++)
        (void)fprintf(out, i ? ", %lld" : "%lld", (long long)source->shape.dims[i]);
    ls_json_print(out, "], 'type': %s, 'labels': %s, 'damaged': %lld, 'seen': %lld", kept_type(source),
                  source->unlabelled        ? "none"
                  : source->targets.numbers ? "numbers"
                                            : "classes",
                  (long long)source->damaged, (long long)facts->sampled);
    put_numbers("values", &facts->values, out);
    put_numbers("targets", &facts->targets, out);
    put_classes(facts, out);
    put_tokens(source, out);
    (void)fputc('}', out);
}

void ls_data_print_json(const char *name, const struct ls_data_facts *facts, int count, const char *hints, FILE *out) {
    const char *transform = ls_dataset_transform(facts->data);
    ls_json_print(out, "{'source': %s, 'kind': %s, 'splits': [", name, facts->data->source->kind);
    for (int i = 0; i < count; i++) {
        if (i) (void)fputs(", ", out);
        put_split(&facts[i], out);
    }
    ls_json_print(out, "], 'transform': %-s, 'hints': [", transform ? transform : "null");
    for (size_t length, i = 0; *hints; hints += length + 1, i++) {
        char line[512];
        length = strcspn(hints, "\n");
        (void)snprintf(line, sizeof(line), "%.*s", (int)length, hints);
        ls_json_print(out, "%-s%s", i ? ", " : "", line);
    }
    (void)fputs("]}\n", out);
}
