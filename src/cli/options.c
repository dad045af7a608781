/* Reads a command line by tables of options, and prints the help from them. Every error names the option, the fault,
 * and the place to read on. */
#define _GNU_SOURCE
#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/config.h"

#define HELP_COLUMN      26
#define HELP_WIDTH       112
#define SECTION_COLUMN   16
#define MOST_ON_A_SCREEN 50 /* options that are explained by a plain --help */

int ls_usage_error(const struct ls_command_line *line, const char *format, ...) {
    va_list arguments;
    (void)fprintf(stderr, "%s: ", line->command);
    if (line->file_line) (void)fprintf(stderr, "%s:%d: ", line->file, line->file_line);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "; see '%s --help'\n", line->command);
    return LS_EXIT_USAGE;
}

static const struct ls_option help_option = {
    "help", .help = "print this text; behind it may stand a section, an option or all", .letter = 'h'};

/* Row i of all tables, and where its table's struct begins; then --help, then NULL. */
static const struct ls_option *row_at(const struct ls_command_line *line, int i, size_t *base) {
    for (const struct ls_option_table *table = line->tables; table && table->rows; table++)
        for (const struct ls_option *row = table->rows; row->name; row++) {
            *base = table->base;
            if (!i--) return row;
        }
    return i ? NULL : &help_option;
}

const struct ls_option *ls_option_find(const struct ls_command_line *line, const char *name, int *place) {
    const struct ls_option *row;
    size_t base;
    for (int i = 0; (row = row_at(line, i, &base)) && row != &help_option; i++) {
        if (strcmp(row->name, name) != 0) continue;
        if (place) *place = i;
        return row;
    }
    return NULL;
}

int ls_option_count(const struct ls_command_line *line) {
    size_t base;
    int count = 0;
    while (row_at(line, count, &base)) count++;
    return count;
}

static bool takes_value(const struct ls_option *option) {
    return option->argument || option->words;
}

static const char *dashes_of(const struct ls_option *option) {
    return option->letter == option->name[0] && option != &help_option ? "-" : "--";
}

/* ---- the words of a command line ---- */

/* An option as it is given. */
struct given {
    const char *word; /* "--name=VALUE" */
    int length;       /* of the word up to '=' */
    const struct ls_option *option;
    size_t base;
    const char *text; /* its value; NULL without one */
};

static bool is_letter(const struct ls_option *row, const char *word) {
    return row->letter && row->letter == word[1] && (!word[2] || takes_value(row));
}

/* Finds an option by its whole name, else by its letter ("-n 4", "-n4"). */
static void find_option(const struct ls_command_line *line, struct given *given) {
    const char *name = given->word + 1 + (given->word[1] == '-'), *end = given->word + given->length;
    for (int i = 0; (given->option = row_at(line, i, &given->base)); i++) {
        if (strlen(given->option->name) != (size_t)(end - name) ||
            strncmp(given->option->name, name, (size_t)(end - name)))
            continue;
        given->text = *end ? end + 1 : NULL;
        return;
    }
    for (int i = 0; (given->option = row_at(line, i, &given->base)); i++) {
        if (!is_letter(given->option, given->word)) continue;
        given->text = given->word[2] ? given->word + 2 : NULL;
        return;
    }
}

/* Reads the option that begins at argv[*at] and steps over it; false where none does. A "--" is stepped over. */
static bool next_given(const struct ls_command_line *line, int *at, struct given *given) {
    const char *word = *at < line->argc ? line->argv[*at] : "";
    if (word[0] != '-' || !word[1]) return false;
    ++*at;
    if (!strcmp(word, "--")) return false;
    *given = (struct given){.word = word, .length = (int)strcspn(word, "=")};
    find_option(line, given);
    if (given->option && takes_value(given->option) && !given->text && *at < line->argc)
        given->text = line->argv[(*at)++];
    return true;
}

/* Finds the last option whose name is that, up to a blank, from argv[at] to argv[end - 1]. Returns false if it is not
 * given there. */
static bool find_given(const struct ls_command_line *line, const char *name, int at, int end, struct given *found) {
    size_t length = strcspn(name, " ");
    struct given given;
    bool any = false;
    while (at < end && next_given(line, &at, &given))
        if (given.option && strlen(given.option->name) == length && !strncmp(given.option->name, name, length))
            *found = given, any = true;
    return any;
}

bool ls_option_given(const struct ls_command_line *line, const char *name) {
    struct given found;
    return find_given(line, name, 1, line->next, &found);
}

const char *ls_option_ahead(const struct ls_command_line *line, const char *name) {
    struct given found;
    return find_given(line, name, 1, line->argc, &found) ? found.text : NULL;
}

const struct ls_option *ls_option_next(const struct ls_command_line *line, int *at, const char **text) {
    struct given given;
    if (*at >= line->next || !next_given(line, at, &given)) return NULL;
    *text = given.text ? given.text : "";
    return given.option;
}

/* "batch_size" and "lr" are other ways to write an option: that one is proposed. */
static bool propose_habit(const struct ls_command_line *line, const struct given *given, int length) {
    char name[64];
    size_t base;
    const struct ls_option *row;
    (void)snprintf(name, sizeof(name), "%.*s", length, given->word + strspn(given->word, "-"));
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    for (int i = 0; (row = row_at(line, i, &base)); i++) {
        if (!ls_option_alike(row->name, ls_option_habit(name))) continue;
        (void)ls_usage_error(line, "unknown option '%.*s'; is %s%s meant?", given->length, given->word, dashes_of(row),
                             row->name);
        return true;
    }
    return false;
}

/* An option that is none, or only the beginning of some: those are proposed. */
static void refuse_unknown(const struct ls_command_line *line, const struct given *given) {
    char list[256] = "";
    const char *name = given->word + strspn(given->word, "-");
    size_t used = 0, base, length = strcspn(name, "=");
    const struct ls_option *row;
    if (propose_habit(line, given, (int)length)) return;
    for (int i = 0; (row = row_at(line, i, &base)) && used < sizeof(list); i++)
        if (length && !strncmp(row->name, name, length))
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s--%s", used ? " or " : "; is ", row->name);
    (void)ls_usage_error(line, "unknown option '%.*s'%s%s", given->length, given->word, list, used ? " meant?" : "");
}

void ls_option_refuse(const struct ls_command_line *line, const char *name) {
    refuse_unknown(line, &(struct given){.word = name, .length = (int)strlen(name)});
}

/* ---- values ---- */

int ls_option_word(const struct ls_command_line *line, const char *what, const char *text, const char *const *words) {
    char list[256] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcasecmp(words[i], text) || !strcasecmp(words[i], ls_option_habit(text))) return i;
        (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s", words[i]);
    }
    (void)ls_usage_error(line, "%s '%s' is none of %s", what, text, list);
    return -1;
}

bool ls_option_integer(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                       int64_t low, int64_t high, int64_t *value) {
    char *end;
    errno = 0;
    long long read = strtoll(text, &end, 10);
    if (end != text && !*end && !errno && read >= low && read <= high) {
        *value = (int64_t)read;
        return true;
    }
    return LS_REFUSE(line, "option '%s%s' needs a whole number from %" PRId64 " to %" PRId64 ", not '%s'",
                     dashes_of(option), option->name, low, high, text);
}

static void store(const struct ls_option *option, void *field, int64_t value) {
    if (option->type == LS_OPTION_BOOL) *(bool *)field = value != 0;
    if (option->type == LS_OPTION_INT) *(int *)field = (int)value;
    if (option->type == LS_OPTION_INT64) *(int64_t *)field = value;
}

static bool read_word(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                      void *field) {
    char name[64];
    (void)snprintf(name, sizeof(name), "--%s", option->name);
    int place = ls_option_word(line, name, text, option->words);
    if (place < 0) return false;
    if (option->type == LS_OPTION_TEXT) *(const char **)field = option->words[place];
    store(option, field, (int64_t)option->low + place);
    return true;
}

static bool read_integer(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                         void *field) {
    int64_t value;
    if (!ls_option_integer(line, option, text, (int64_t)option->low, (int64_t)option->high, &value)) return false;
    store(option, field, value);
    return true;
}

static bool read_number(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                        void *field) {
    char *end;
    double low = (double)option->low, high = (double)option->high;
    errno = 0;
    double read = strtod(text, &end);
    if (end == text || *end || errno || !(read >= low && read <= high))
        return LS_REFUSE(line, "option '%s%s' needs a number from %g to %g, not '%s'", dashes_of(option), option->name,
                         low, high, text);
    if (option->type == LS_OPTION_FLOAT) *(float *)field = (float)read;
    if (option->type == LS_OPTION_DOUBLE) *(double *)field = read;
    return true;
}

static bool read_text(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                      void *field) {
    (void)line, (void)option;
    *(const char **)field = text;
    return true;
}

static bool read_flag(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                      void *field) {
    (void)line, (void)text;
    store(option, field, (int64_t)option->low);
    return true;
}

static ls_option_fn *find_reader(const struct ls_option *option) {
    static ls_option_fn *const readers[] = {
        [LS_OPTION_BOOL] = read_flag,    [LS_OPTION_INT] = read_integer,   [LS_OPTION_INT64] = read_integer,
        [LS_OPTION_FLOAT] = read_number, [LS_OPTION_DOUBLE] = read_number, [LS_OPTION_TEXT] = read_text};
    if (option->read) return option->read;
    return !takes_value(option) ? read_flag : option->words ? read_word : readers[option->type];
}

static bool read_value(const struct ls_command_line *line, const struct given *given, void *values) {
    const struct ls_option *option = given->option;
    if (takes_value(option) && !given->text)
        return LS_REFUSE(line, "option '%.*s' needs a value", given->length, given->word);
    if (!takes_value(option) && given->text)
        return LS_REFUSE(line, "option '%.*s' takes no value", given->length, given->word);
    return find_reader(option)(line, option, given->text, (char *)values + given->base + option->target);
}

bool ls_option_default(const struct ls_command_line *line, const char *name, const char *text, void *values) {
    struct given given = {.word = name, .length = (int)strlen(name), .text = text};
    int place;
    if (ls_option_given(line, name) || !ls_option_find(line, name, &place)) return true;
    given.option = row_at(line, place, &given.base);
    return read_value(line, &given, values);
}

const char *ls_option_text(const struct ls_command_line *line, const char *name) {
    struct given found;
    if (!find_given(line, name, 1, line->next, &found)) return NULL;
    return found.text ? found.text : "";
}

/* ---- the help ---- */

/* Prints text from a column on, broken at blanks and behind '|'; returns the column behind it. */
static int print_broken(const char *text, int column) {
    for (bool blank = false; *text; text += blank) {
        int length = (int)strcspn(text, " |");
        length += text[length] == '|';
        if (column + blank + length > HELP_WIDTH)
            column = printf("\n%*s", HELP_COLUMN, "") - 1;
        else if (blank)
            column += printf(" ");
        column += printf("%.*s", length, text);
        text += length;
        blank = *text == ' ';
    }
    return column;
}

static void print_option(const struct ls_option *option) {
    int column = printf("  ");
    if (option->letter && option != &help_option) column += printf("-%c %s, ", option->letter, option->argument);
    column += printf("%s%s%s", dashes_of(option), option->name, takes_value(option) ? " " : "");
    if (option->argument) column += printf("%s", option->argument);
    for (int i = 0; !option->argument && option->words && option->words[i]; i++) {
        column = print_broken(option->words[i], column);
        if (option->words[i + 1]) column += printf("|");
    }
    column += column < HELP_COLUMN - 1 ? printf("%*s", HELP_COLUMN - column, "") : printf("   ");
    (void)print_broken(option->help, column);
    (void)printf("\n");
}

/* True if word stands in a title: "data" in "model and data". */
static bool has_word(const char *title, const char *word) {
    size_t length = strlen(word);
    for (const char *at = title; length && (at = strstr(at, word)); at++)
        if ((at == title || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
    return false;
}

/* Those whose title has the word, or all (NULL), with their options. Returns false if there is none. */
static bool print_sections(const struct ls_command_line *line, const char *word) {
    bool shown = false, any = false;
    for (const struct ls_option_table *table = line->tables; table && table->rows; table++) {
        if (table->title) shown = !word || has_word(table->title, word);
        if (!shown) continue;
        if (table->title) (void)printf("%s%s:\n", any ? "\n" : "", table->title);
        for (const struct ls_option *row = table->rows; row->name; row++) print_option(row);
        any = true;
    }
    return any;
}

/* The names of the options of each section. */
static void print_overview(const struct ls_command_line *line) {
    int column = 0;
    (void)printf("options by section; '%s --help SECTION|OPTION|all' explains them:", line->command);
    for (const struct ls_option_table *table = line->tables; table->rows; table++) {
        if (table->title) column = printf("\n  %-*s", SECTION_COLUMN - 2, table->title) - 1;
        for (const struct ls_option *row = table->rows; row->name; row++) {
            if (column + 3 + (int)strlen(row->name) > HELP_WIDTH) column = printf("\n%*s", SECTION_COLUMN, "") - 1;
            column += printf(" %s%s", dashes_of(row), row->name);
        }
    }
    (void)printf("\n");
}

static int print_about(const struct ls_command_line *line, bool all) {
    const char *examples = strstr(line->more, "examples:");
    bool overview = !all && ls_option_count(line) > MOST_ON_A_SCREEN;
    (void)printf("%s\n%s", line->about, line->tables ? "" : "options:\n");
    if (overview)
        print_overview(line);
    else
        (void)print_sections(line, NULL);
    if (!overview) print_option(&help_option);
    return printf("\n%s", overview && examples ? examples : line->more) < 0;
}

/* Of the word behind --help: a section, an option, all; without one of the command. */
static int print_help(const struct ls_command_line *line) {
    const char *word = line->next < line->argc ? line->argv[line->next] : "-";
    if (word[0] == '-' || !strcmp(word, "all")) return print_about(line, word[0] != '-');
    const struct ls_option *option = ls_option_find(line, word, NULL);
    if (print_sections(line, word)) return 0;
    if (!option) return ls_usage_error(line, "--help '%s' is no section and no option", word);
    print_option(option);
    return 0;
}

/* Words for the completion of shells, one a line: long options; or the values of the option that is given so. */
static int list_options(const struct ls_command_line *line) {
    const char *name = line->argc > 2 ? line->argv[2] + strspn(line->argv[2], "-") : NULL;
    const struct ls_option *row = name ? ls_option_find(line, name, NULL) : NULL;
    size_t base;
    for (int i = 0; row && row->words && row->words[i]; i++) (void)puts(row->words[i]);
    for (int i = 0; !name && (row = row_at(line, i, &base)); i++) (void)printf("--%s\n", row->name);
    if (name && !strcmp(name, help_option.name))
        for (const struct ls_option_table *table = line->tables; table && table->rows; table++)
            if (table->title && !strchr(table->title, ' ')) (void)puts(table->title);
    return ferror(stdout) != 0;
}

/* ---- the command line ---- */

/* Errors about the option at argv[at] name the line of the file that has it. */
static void set_place(struct ls_command_line *line, int at) {
    bool in_file = line->config && at <= line->config->count;
    line->file_line = in_file ? line->config->words[at - 1].line : 0;
}

/* Finds text among words apart by '|', in any case. */
static bool is_among(const char *words, const char *text) {
    size_t length = strlen(text);
    for (; *words; words += strspn(words, "|")) {
        size_t word = strcspn(words, "|");
        if (word == length && !strncasecmp(words, text, length)) return true;
        words += word;
    }
    return false;
}

/* "schedule exponential|cosine": an option that is not given has its first word. */
static bool needed_is_given(const struct ls_command_line *line, const struct ls_option *option, const char *needs) {
    char name[64];
    int length = (int)strcspn(needs, " ");
    struct given other;
    (void)snprintf(name, sizeof(name), "%.*s", length, needs);
    bool given = find_given(line, name, 1, line->next, &other);
    const struct ls_option *needed = ls_option_find(line, name, NULL);
    const char *text = given ? other.text : needed && needed->words ? needed->words[0] : NULL;
    if (text && (!needed->words || is_among(needs + length + 1, text))) return true;
    if (given && needed && !needed->words) return true;
    return LS_REFUSE(line, given ? "option '--%s' needs '--%s', not '%s'" : "option '--%s' needs '--%s'", option->name,
                     needs, text);
}

bool ls_option_check_need(const struct ls_command_line *line, const char *name, const char *needs) {
    const struct ls_option *option = ls_option_find(line, name, NULL);
    return !option || !ls_option_given(line, name) || needed_is_given(line, option, needs);
}

static bool has_what_it_needs(struct ls_command_line *line) {
    struct given given;
    for (int at = 1, from = 1; at < line->next && next_given(line, &at, &given); from = at) {
        const char *needs = given.option ? given.option->needs : NULL;
        if (!needs) continue;
        set_place(line, from);
        if (!needed_is_given(line, given.option, needs)) return false;
    }
    line->file_line = 0;
    return true;
}

/* Twice on the command line: what stands in the file is what the command line changes. */
static void warn_of_double(const struct ls_command_line *line, const struct ls_option *option, int at) {
    struct given before;
    int first = 1 + (line->config ? line->config->count : 0);
    if (!option->many && find_given(line, option->name, first, at, &before))
        (void)fprintf(stderr, "%s: warning: option '--%s' is given more than once; the last one counts\n",
                      line->command, option->name);
}

int ls_options_read(struct ls_command_line *line, void *values) {
    struct given given;
    if (line->argc > 1 && line->argc < 4 && !strcmp(line->argv[1], "--list-options")) return list_options(line);
    if (!line->next && !ls_config_take(line)) return LS_EXIT_USAGE;
    if (!line->next) line->next = 1;
    for (int at = line->next; next_given(line, &line->next, &given); at = line->next) {
        set_place(line, at);
        if (given.option == &help_option && !given.text) return print_help(line);
        if (!given.option) refuse_unknown(line, &given);
        if (!given.option) return LS_EXIT_USAGE;
        if (!read_value(line, &given, values)) return LS_EXIT_USAGE;
        warn_of_double(line, given.option, at);
    }
    if (!has_what_it_needs(line)) return LS_EXIT_USAGE;
    return ls_option_given(line, "print-config") ? ls_config_print(line, stdout) : -1;
}

int ls_options_read_around(struct ls_command_line *line, void *values, int *count) {
    int code;
    *count = 0;
    while ((code = ls_options_read(line, values)) < 0 && line->next < line->argc)
        line->argv[(*count)++] = line->argv[line->next++]; /* the places before line->next have been read */
    return code;
}

bool ls_no_arguments(const struct ls_command_line *line) {
    if (line->next >= line->argc) return true;
    const char *word = line->argv[line->next];
    bool data = ls_option_find(line, "dataset", NULL) && !ls_option_given(line, "dataset");
    return LS_REFUSE(line, data ? "unexpected argument '%s'; is --dataset %s meant?" : "unexpected argument '%s'", word,
                     word);
}

char *ls_next_word(char **list) {
    return strsep(list, ",");
}
