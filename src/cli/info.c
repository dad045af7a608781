/* lockstep info: the features of this build and machine, and the reasons for the missing ones. Its output is meant to
 * be pasted into a report. */
#include <lockstep/tools.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char about[] =
    "lockstep info: print what this build and machine offer, and why not the rest; or what a file of a model is\n"
    "\n"
    "usage: lockstep info [FILE]\n"
    "\n"
    "Prints the version, what it was built with, the kinds of devices, the kinds of communication between\n"
    "workers, and every setting with its value in force, its default and its meaning. All deadlines are printed\n"
    "by lockstep settings.\n"
    "\n"
    "With FILE: the layers, shapes and parameters of a saved model, a checkpoint or a folder of Hugging Face's, and "
    "what\n"
    "else it says of itself;\n"
    "or the variables of a file that holds weights alone.\n";
static const char more[] =
    "environment:\n"
    "  LOCKSTEP_*  the settings; the list that this command prints is complete\n"
    "\n"
    "exit status: 0 success; 2 a setting that does not parse, or a bad command line; 1 a FILE that is\n"
    "damaged, or not there.\n";

static const struct section {
    const char *title;
    ls_status (*text)(char **text);
} sections[] = {
    {"devices and communication", ls_tools_devices},
    {"settings (environment variables)", ls_tools_settings},
};

static ls_status print_build(void) {
    char *text = NULL;
    ls_status status = ls_tools_build(&text);
    if (!status) (void)printf("lockstep %s\nbuilt with %s\n", ls_version(), text);
    ls_memory_free(text);
    return status;
}

static ls_status print_section(const struct section *section) {
    char *text = NULL;
    ls_status status = section->text(&text);
    if (!status) (void)printf("\n%s:\n%s", section->title, text);
    ls_memory_free(text);
    return status;
}

static ls_status print_file(const char *path) {
    char *text = NULL;
    ls_status status = ls_tools_describe_model(path, &text);
    if (!status) (void)fputs(text, stdout);
    ls_memory_free(text);
    return status;
}

static ls_status print_all(void) {
    ls_status status = print_build();
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && !status; i++) status = print_section(&sections[i]);
    return status;
}

int info_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep info", argc, argv, about, more, NULL, 0};
    int code = ls_options_read(&line, NULL);
    if (code >= 0) return code;
    const char *path = line.next < argc ? argv[line.next++] : NULL;
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    ls_status status = path ? print_file(path) : print_all();
    (void)fflush(stdout);
    return ls_exit(status);
}
