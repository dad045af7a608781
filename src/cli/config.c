/* Reading --config's file by libyaml, and writing one. All that the file has is an option, or one error that names
 * the line. */
#define _GNU_SOURCE
#include "cli/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define MOST_BYTES (1 << 20)

static bool take_nothing(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                         void *field) {
    (void)field;
    return !text || *text || LS_REFUSE(line, "option '--%s' needs a file", option->name);
}

const struct ls_option ls_config_options[] = {
    {"config", "FILE",
     "options from a file in YAML or JSON: names without dashes, values, true for a flag; those of the command line "
     "win",
     0, LS_OPTION_READ, .read = take_nothing},
    {"print-config", NULL, "print the options that are given, file and command line together, as such a file, and end",
     0, LS_OPTION_READ, .read = take_nothing},
    {0}};

/* Those of the table above are for the command line alone. */
static bool in_files(const struct ls_option *option) {
    for (const struct ls_option *row = ls_config_options; row->name; row++)
        if (option == row) return false;
    return true;
}

/* ---- reading ---- */

struct reading {
    const char *text; /* [size] the file */
    size_t size;
    yaml_parser_t parser;
    yaml_event_t event;
    struct ls_command_line line; /* its errors name the file's line */
    struct ls_config *config;
};

static bool no_memory(const struct ls_command_line *line) {
    return LS_REFUSE(line, "no memory for the file's options");
}

/* Before that byte. */
static size_t count_lines(const struct reading *reading, size_t offset) {
    size_t lines = 0;
    for (size_t i = 0; i < offset && i < reading->size; i++) lines += reading->text[i] == '\n';
    return lines;
}

static bool next_event(struct reading *reading) {
    const yaml_parser_t *parser = &reading->parser;
    yaml_event_delete(&reading->event);
    if (yaml_parser_parse(&reading->parser, &reading->event)) {
        reading->line.file_line = (int)reading->event.start_mark.line + 1;
        return true;
    }
    size_t line = parser->problem_mark.line;
    if (parser->error == YAML_READER_ERROR) line = count_lines(reading, parser->problem_offset);
    reading->line.file_line = (int)line + 1;
    return LS_REFUSE(&reading->line, "this is no YAML: %s", parser->problem ? parser->problem : "no memory");
}

/* No anchor, alias or tag: these change what the words of the file say. */
static bool plain_node(const struct reading *reading) {
    const yaml_event_t *event = &reading->event;
    bool node = event->type == YAML_SCALAR_EVENT || event->type == YAML_SEQUENCE_START_EVENT ||
                event->type == YAML_MAPPING_START_EVENT; /* whose data begin alike */
    bool marked = node && (event->data.scalar.anchor || event->data.scalar.tag);
    if (event->type != YAML_ALIAS_EVENT && !marked) return true;
    return LS_REFUSE(&reading->line, "anchors (&), aliases (*) and tags (!) are not read: write the value");
}

/* The place of the scalar among words that end with NULL, -1 for none. Quoted it is none. */
static int find_plain(const yaml_event_t *event, const char *const *words) {
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    for (int i = 0; plain && words[i]; i++)
        if (!strcmp((const char *)event->data.scalar.value, words[i])) return i;
    return -1;
}

/* As YAML 1.2 has them: "off" is a word. */
static const char *const falses[] = {"false", "False", "FALSE", NULL};
static const char *const trues[] = {"true", "True", "TRUE", NULL};
static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};

static bool add_word(struct reading *reading, const struct ls_option *option, const char *text) {
    struct ls_config *config = reading->config;
    struct ls_config_word *words = realloc(config->words, (size_t)(config->count + 1) * sizeof(*words));
    if (!words) return no_memory(&reading->line);
    config->words = words;
    words[config->count] = (struct ls_config_word){.line = reading->line.file_line};
    if (asprintf(&words[config->count].text, text ? "--%s=%s" : "--%s", option->name, text) < 0)
        return no_memory(&reading->line);
    config->count++;
    return true;
}

/* The text of a scalar that is a value; NULL after the error. */
static const char *value_text(struct reading *reading, const struct ls_option *option) {
    const yaml_event_t *event = &reading->event;
    const char *text = (const char *)event->data.scalar.value, *fault = NULL;
    if (!plain_node(reading)) return NULL;
    if (event->type != YAML_SCALAR_EVENT)
        fault = "a list or a mapping";
    else if (find_plain(event, nulls) >= 0)
        fault = "nothing";
    else if (find_plain(event, trues) >= 0 || find_plain(event, falses) >= 0)
        fault = text;
    else if (strlen(text) != event->data.scalar.length)
        fault = "a text with a zero byte";
    if (!fault) return text;
    (void)ls_usage_error(&reading->line, "option '%s' needs a value, not %s", option->name, fault);
    return NULL;
}

static bool add_flag(struct reading *reading, const struct ls_option *option) {
    if (!plain_node(reading)) return false;
    bool scalar = reading->event.type == YAML_SCALAR_EVENT;
    if (scalar && find_plain(&reading->event, trues) >= 0) return add_word(reading, option, NULL);
    if (scalar && find_plain(&reading->event, falses) >= 0) return true;
    return LS_REFUSE(&reading->line, "option '%s' needs true or false", option->name);
}

static bool takes_list(const struct ls_option *option) {
    const char *argument = option->argument;
    return option->many || (argument && (strchr(argument, ',') || !strcmp(argument, "LIST")));
}

/* Joins what stands in a list by commas; an option that may be given several times is given for each. */
static bool add_list(struct reading *reading, const struct ls_option *option) {
    char *joined = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&joined, &size);
    if (!out) return no_memory(&reading->line);
    bool good = plain_node(reading), first = true;
    for (; good && (good = next_event(reading)) && reading->event.type != YAML_SEQUENCE_END_EVENT; first = false) {
        const char *text = value_text(reading, option);
        if (!text)
            good = false;
        else if (option->many)
            good = add_word(reading, option, text);
        else
            (void)fprintf(out, first ? "%s" : ",%s", text);
    }
    bool written = !fclose(out);
    if (good && first) good = LS_REFUSE(&reading->line, "option '%s' has an empty list", option->name);
    if (good && !option->many) good = written ? add_word(reading, option, joined) : no_memory(&reading->line);
    free(joined);
    return good;
}

static bool add_value(struct reading *reading, const struct ls_option *option) {
    if (!option->argument && !option->words) return add_flag(reading, option);
    if (reading->event.type == YAML_SEQUENCE_START_EVENT && takes_list(option)) return add_list(reading, option);
    const char *text = value_text(reading, option);
    return text && add_word(reading, option, text);
}

/* The option whose name was read; NULL after the error. seen has the line of each option so far. */
static const struct ls_option *find_named(struct reading *reading, int *seen) {
    const char *name = (const char *)reading->event.data.scalar.value;
    if (!plain_node(reading)) return NULL;
    if (reading->event.type != YAML_SCALAR_EVENT || strlen(name) != reading->event.data.scalar.length) {
        (void)ls_usage_error(&reading->line, "here the name of an option is needed");
        return NULL;
    }
    int place;
    const struct ls_option *option = ls_option_find(&reading->line, name, &place);
    if (option && in_files(option) && !seen[place]) {
        seen[place] = reading->line.file_line;
        return option;
    }
    if (!option)
        ls_option_refuse(&reading->line, name);
    else if (!in_files(option))
        (void)ls_usage_error(&reading->line, "option '%s' is for the command line alone", name);
    else
        (void)ls_usage_error(&reading->line, "option '%s' stands in line %d, too", name, seen[place]);
    return NULL;
}

static bool read_options(struct reading *reading, int *seen) {
    if (reading->event.type == YAML_SCALAR_EVENT && plain_node(reading) && find_plain(&reading->event, nulls) >= 0)
        return true; /* nothing but comments */
    if (!plain_node(reading)) return false;
    if (reading->event.type != YAML_MAPPING_START_EVENT)
        return LS_REFUSE(&reading->line, "a line is NAME: VALUE, such as 'epochs: 5'");
    while (next_event(reading) && reading->event.type != YAML_MAPPING_END_EVENT) {
        const struct ls_option *option = find_named(reading, seen);
        if (!option || !next_event(reading) || !add_value(reading, option)) return false;
    }
    return reading->event.type == YAML_MAPPING_END_EVENT;
}

/* An empty stream has no document. */
static bool read_stream(struct reading *reading, int *seen) {
    if (!next_event(reading) || !next_event(reading)) return false;
    if (reading->event.type == YAML_STREAM_END_EVENT) return true;
    if (!next_event(reading) || !read_options(reading, seen) || !next_event(reading) || !next_event(reading))
        return false;
    return reading->event.type == YAML_STREAM_END_EVENT ||
           LS_REFUSE(&reading->line, "a second document begins: a file has one");
}

bool ls_config_parse(const struct ls_command_line *line, const char *text, size_t size, struct ls_config *config) {
    struct reading reading = {.text = text, .size = size, .line = *line, .config = config};
    int *seen = calloc((size_t)ls_option_count(line), sizeof(*seen));
    *config = (struct ls_config){0};
    if (!seen || !yaml_parser_initialize(&reading.parser)) {
        free(seen);
        return no_memory(line);
    }
    yaml_parser_set_input_string(&reading.parser, (const unsigned char *)text, size);
    bool good = read_stream(&reading, seen);
    yaml_event_delete(&reading.event);
    yaml_parser_delete(&reading.parser);
    free(seen);
    return good;
}

void ls_config_free(struct ls_config *config) {
    for (int i = 0; i < config->count; i++) free(config->words[i].text);
    free(config->words);
}

/* ---- the command line ---- */

static bool read_config_file(const struct ls_command_line *line, struct ls_config *config) {
    char *text = malloc(MOST_BYTES + 1);
    FILE *file = text ? fopen(line->file, "re") : NULL;
    size_t size = file ? fread(text, 1, MOST_BYTES + 1, file) : 0;
    bool read = file && !ferror(file), good = false;
    if (!read)
        (void)ls_usage_error(line, "--config '%.300s': %s", line->file, strerror(errno));
    else if (size > MOST_BYTES)
        (void)ls_usage_error(line, "--config '%.300s' is longer than %d bytes", line->file, MOST_BYTES);
    else
        good = ls_config_parse(line, text, size, config);
    if (file) (void)fclose(file);
    free(text);
    return good;
}

/* A command line with the options of a file. */
struct taken {
    struct ls_config config;
    char *argv[];
};

static void release_taken(int status, void *context) {
    struct taken *taken = context;
    (void)status;
    ls_config_free(&taken->config);
    free(taken);
}

bool ls_config_take(struct ls_command_line *line) {
    struct ls_config config = {0};
    line->file = ls_option_find(line, "config", NULL) ? ls_option_ahead(line, "config") : NULL;
    if (!line->file || !*line->file) return true;
    bool read = read_config_file(line, &config);
    struct taken *taken =
        read ? malloc(sizeof(*taken) + (size_t)(config.count + line->argc + 1) * sizeof(char *)) : NULL;
    if (taken) taken->config = config;
    if (!taken || on_exit(release_taken, taken)) {
        ls_config_free(&config);
        free(taken);
        return read && no_memory(line);
    }
    taken->argv[0] = line->argv[0];
    for (int i = 0; i < config.count; i++) taken->argv[1 + i] = config.words[i].text;
    memcpy(taken->argv + 1 + config.count, line->argv + 1, (size_t)line->argc * sizeof(char *));
    line->argv = taken->argv;
    line->argc += config.count;
    line->config = &taken->config;
    return true;
}

/* ---- writing ---- */

static bool emit(yaml_emitter_t *emitter, int made, yaml_event_t *event) {
    return made && yaml_emitter_emit(emitter, event);
}

/* Text of any kind is quoted: "true" is no flag, and "off" is a flag for others. */
static bool put_text(yaml_emitter_t *emitter, const char *text, bool quoted) {
    yaml_event_t event;
    int made = yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, -1, 1, 1,
                                            quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE);
    return emit(emitter, made, &event);
}

static bool put_value(yaml_emitter_t *emitter, const struct ls_option *option, const char *text) {
    bool flag = !option->argument && !option->words;
    bool number = *text && !text[strspn(text, "0123456789+-.eE")] && option->type != LS_OPTION_TEXT;
    return flag ? put_text(emitter, "true", false) : put_text(emitter, text, !number || option->read);
}

static bool put_list(yaml_emitter_t *emitter, const struct ls_command_line *line, const struct ls_option *option) {
    yaml_event_t event;
    bool good =
        emit(emitter, yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_FLOW_SEQUENCE_STYLE), &event);
    const struct ls_option *given;
    const char *text;
    for (int at = 1; good && (given = ls_option_next(line, &at, &text));)
        if (given == option) good = put_value(emitter, option, text);
    return good && emit(emitter, yaml_sequence_end_event_initialize(&event), &event);
}

static bool put_options(yaml_emitter_t *emitter, const struct ls_command_line *line) {
    for (const struct ls_option_table *table = line->tables; table->rows; table++)
        for (const struct ls_option *row = table->rows; row->name; row++) {
            const char *text = in_files(row) ? ls_option_text(line, row->name) : NULL;
            if (!text) continue;
            if (!put_text(emitter, row->name, false)) return false;
            if (!(row->many ? put_list(emitter, line, row) : put_value(emitter, row, text))) return false;
        }
    return true;
}

static bool put_stream(yaml_emitter_t *emitter, const struct ls_command_line *line) {
    yaml_event_t event;
    return emit(emitter, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING), &event) &&
           emit(emitter, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1), &event) &&
           emit(emitter, yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE),
                &event) &&
           put_options(emitter, line) && emit(emitter, yaml_mapping_end_event_initialize(&event), &event) &&
           emit(emitter, yaml_document_end_event_initialize(&event, 1), &event) &&
           emit(emitter, yaml_stream_end_event_initialize(&event), &event);
}

int ls_config_print(const struct ls_command_line *line, FILE *out) {
    yaml_emitter_t emitter;
    bool made = yaml_emitter_initialize(&emitter), good = made;
    if (made) {
        yaml_emitter_set_output_file(&emitter, out);
        yaml_emitter_set_unicode(&emitter, 1);
        yaml_emitter_set_width(&emitter, -1);
        good = put_stream(&emitter, line);
        yaml_emitter_delete(&emitter);
    }
    return good ? 0 : ls_usage_error(line, "--print-config: no memory, or a value that is no UTF-8");
}
