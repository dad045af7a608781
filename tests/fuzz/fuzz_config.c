/* A file of options from any bytes: it is options that are written as a file that says the same, or an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config.h"
#include "fuzz/fuzz.h"

static const char *const words[] = {"sgd", "off", "true", NULL};
static const struct ls_option rows[] = {{"np", "N", "", 0, LS_OPTION_INT, 1, 9},
                                        {"rate", "X", "", 0, LS_OPTION_DOUBLE, 0, 1},
                                        {"json", NULL, "", 0, LS_OPTION_BOOL, true},
                                        {"kind", NULL, "", 0, LS_OPTION_TEXT, .words = words},
                                        {"csv", "FILE", "", 0, LS_OPTION_TEXT},
                                        {"hidden", "A,B,...", "", 0, LS_OPTION_TEXT},
                                        {"export", "NAME", "", 0, LS_OPTION_TEXT, .letter = 'x', .many = true},
                                        {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {"configuration", ls_config_options, 0}, {0}};

static void require(bool condition) {
    if (!condition) abort();
}

/* An error is printed where there is one, and only there. */
static bool parse(const char *text, size_t size, struct ls_config *config) {
    struct ls_command_line line = {"fuzz", 0, NULL, "", "", tables, .file = "file"};
    FILE *terminal = stderr;
    char *printed = NULL;
    size_t length = 0;
    stderr = open_memstream(&printed, &length);
    require(stderr != NULL);
    bool good = ls_config_parse(&line, text, size, config);
    require(!fclose(stderr));
    stderr = terminal;
    require(good == !length && (good || !strncmp(printed, "fuzz: file:", 11)));
    free(printed);
    return good;
}

/* As the words of a command line. */
static char *write_file(const struct ls_config *config, size_t *size) {
    char *text = NULL, **argv = calloc((size_t)config->count + 1, sizeof(*argv));
    FILE *out = open_memstream(&text, size);
    require(argv && out);
    for (int i = 0; i < config->count; i++) argv[1 + i] = config->words[i].text;
    const struct ls_command_line line = {"fuzz", config->count + 1, argv, "", "", tables, config->count + 1};
    require(!ls_config_print(&line, out) && !fclose(out));
    free(argv);
    return text;
}

static int count(const struct ls_config *config, const char *text) {
    int found = 0;
    for (int i = 0; i < config->count; i++) found += !strcmp(config->words[i].text, text);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_config config, again;
    if (size > 65536) return 0;
    bool good = parse((const char *)data, size, &config);
    for (int i = 0; i < config.count; i++) require(!strncmp(config.words[i].text, "--", 2) && config.words[i].line > 0);
    if (good) {
        char *text = write_file(&config, &size);
        require(parse(text, size, &again) && again.count == config.count);
        for (int i = 0; i < config.count; i++)
            require(count(&config, config.words[i].text) == count(&again, config.words[i].text));
        ls_config_free(&again);
        free(text);
    }
    ls_config_free(&config);
    return 0;
}
