/* Command lines: tables of options, one row an option. The row holds the form of the option, its permitted values, the
 * place of its value and its line of --help. A new option of lockstep train is one row of a table, and its use.
 * Commands that share options share the table. Long options may be written with one dash (-np 4), are written out, and
 * take their value as --name VALUE or --name=VALUE. An option that is given twice is warned of: the last one counts.
 * Every command has --help, -h and, for the completion of shells, --list-options; behind each may stand an option, and
 * behind --help a section. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_EXIT_USAGE 2

/* The type of the field that takes the value; LS_OPTION_READ: the row's own function takes it. */
enum ls_option_type {
    LS_OPTION_READ,
    LS_OPTION_BOOL,
    LS_OPTION_INT, /* an enum, too */
    LS_OPTION_INT64,
    LS_OPTION_FLOAT,
    LS_OPTION_DOUBLE,
    LS_OPTION_TEXT
};

/* The columns target and type of a row whose value goes to that field of a struct. */
#define LS_OPTION_AT(struct_type, field)                                                                               \
    offsetof(struct_type, field),                                                                                      \
        _Generic(((struct_type *)0)->field, bool                                                                       \
                 : LS_OPTION_BOOL, int                                                                                 \
                 : LS_OPTION_INT, unsigned                                                                             \
                 : LS_OPTION_INT, int64_t                                                                              \
                 : LS_OPTION_INT64, uint64_t                                                                           \
                 : LS_OPTION_INT64, float                                                                              \
                 : LS_OPTION_FLOAT, double                                                                             \
                 : LS_OPTION_DOUBLE, const char *                                                                      \
                 : LS_OPTION_TEXT)

struct ls_command_line;
struct ls_option;
/* Reads text into field; prints the error and returns false if it cannot. */
typedef bool ls_option_fn(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                          void *field);

struct ls_option {
    const char *name;         /* "epochs" */
    const char *argument;     /* in help: "N"; if NULL, help shows the words, if there are any */
    const char *help;         /* one line, which --help breaks */
    size_t target;            /* the offset of the field in the table's struct */
    enum ls_option_type type; /* of the field */
    long double low, high;    /* of a number. low is also the value of a given flag, and of the first word */
    const char *const *words; /* the value is one of them, in any case; ends with NULL. A text field gets the word */
    /* "checkpoint FOLDER": an option that must be given with this one; of words, with one of these: "schedule
     * exponential|cosine". The first of an option's words is its default */
    const char *needs;
    ls_option_fn *read;
    char letter; /* 'n': -n; a name that begins with it is shown with one dash (-np) */
    bool many;   /* it may be given several times: each counts */
};

struct ls_option_table {
    const char *title;            /* of a part of --help; NULL if the table continues the part before */
    const struct ls_option *rows; /* ends with a zero row */
    size_t base;                  /* the offset of the table's struct in the command's */
};

struct ls_command_line {
    const char *command; /* as in messages: "lockstep run" */
    int argc;
    char **argv;
    const char *about; /* --help before the options, and behind them */
    const char *more;
    const struct ls_option_table *tables; /* ends with a zero row; NULL if --help is the only option */
    int next;                             /* argv's first word that has not been read; 0 at the start */
    const char *file;                     /* --config's, and the line that an error is about; 0: the command line */
    int file_line;
    const struct ls_config *config; /* the file's options, which are argv[1], argv[2], ... */
};

/* Reads options into the command's struct, up to the first argument, which is argv[line->next]. Returns -1 if the
 * command goes on; else the exit status, after the error, or the help, has been printed. */
int ls_options_read(struct ls_command_line *line, void *values);
/* The same where options may stand behind arguments, too: these become argv[0] to argv[*count - 1]. */
int ls_options_read_around(struct ls_command_line *line, void *values, int *count);
/* True if that option was given. */
bool ls_option_given(const struct ls_command_line *line, const char *name);
/* As if the option of that name were given with text, NULL for a flag, by who has it from elsewhere: true where it is
 * given, whatever its text, or where there is none of that name. False after the error has been printed. */
bool ls_option_default(const struct ls_command_line *line, const char *name, const char *text, void *values);
/* As the column needs, for an option that not all commands refuse; false after the error has been printed. */
bool ls_option_check_need(const struct ls_command_line *line, const char *name, const char *needs);
/* The text with which it is given: "" for a flag, NULL where it is not. */
const char *ls_option_text(const struct ls_command_line *line, const char *name);
/* Before options are read: the text of the last one of that name, NULL without one. */
const char *ls_option_ahead(const struct ls_command_line *line, const char *name);
/* The next given option from argv[*at] on, and its text, likewise; *at is 1 at first. NULL: there is none. */
const struct ls_option *ls_option_next(const struct ls_command_line *line, int *at, const char **text);
/* The row of that name, and its place (NULL: not asked) among ls_option_count; NULL if there is none. */
const struct ls_option *ls_option_find(const struct ls_command_line *line, const char *name, int *place);
int ls_option_count(const struct ls_command_line *line);
/* Prints the error of a name that is none. */
void ls_option_refuse(const struct ls_command_line *line, const char *name);
/* Prints "command: message; see 'command --help'" and returns LS_EXIT_USAGE. */
int ls_usage_error(const struct ls_command_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, and false. */
#define LS_REFUSE(...) (ls_usage_error(__VA_ARGS__), false)
/* Refuses words behind the options, for commands without arguments; true if there are none. */
bool ls_no_arguments(const struct ls_command_line *line);
/* Reads text as a whole number in [low, high], for the functions of rows; prints the error and returns false if it is
 * none. */
bool ls_option_integer(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                       int64_t low, int64_t high, int64_t *value);
/* The place of text in a list of words that ends with NULL; -1 after the error, which begins with what. */
int ls_option_word(const struct ls_command_line *line, const char *what, const char *text, const char *const *words);
/* The name here of what other frameworks call so ("mse", "lr"); else word. */
const char *ls_option_habit(const char *word);
/* True for two ways to write a name, such as "learningrate" and "learning-rate". */
bool ls_option_alike(const char *a, const char *b);
/* The next word of a list with commas, an empty one where nothing stands between two; NULL after the last. Changes the
 * list. */
char *ls_next_word(char **list);
