/* Every public function with arguments that are right, at their edge, or NULL: none crashes, each error has a message
 * and leaves the outputs as they were, and a NULL where none is allowed is INVALID_ARGUMENT that names it. The callers
 * are written by api_calls.py from the headers, so that no function is left out. */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "folder.h"
#include "property/api_draw.h"

enum { MOST_POINTERS = 8, CALLS = 40 };

struct function {
    const char *name;
    ls_status (*call)(struct draw *draw, int missing); /* missing: which pointer is NULL; -1: none */
    bool fails;                                        /* returns a status */
    int pointers;
    const char *names[MOST_POINTERS];
};

#include "api_calls.h" /* generated */

enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && !strcmp(text + length - of_end, end);
}

/* It passes on the status that it is given. */
static bool closes(const struct function *function) {
    return ends_with(function->name, "_close");
}

/* Arguments that may be NULL: those that a header says so of, and an array that may be empty. */
static bool may_be_null(const struct function *function, const char *name) {
    static const char *const everywhere[] = {"options", "result", "context",  "device",  "tf_config",
                                             "tasks",   "more",   "memory",   "input",   "data",
                                             "counts",  "list",   "hostfile", "cluster", "central"};
    for (size_t i = 0; i < sizeof(everywhere) / sizeof(everywhere[0]); i++)
        if (!strcmp(name, everywhere[i])) return true;
    bool of_none = !strcmp(function->name, "ls_tools_labels") && !strcmp(name, "labels"); /* with a count of 0 */
    return of_none || closes(function) || ends_with(function->name, "_free") || !strcmp(name, "output");
}

static void try(const struct function *function, struct draw *draw, int missing) {
    char note[256];
    (void)snprintf(note, sizeof(note), "--seed %llu: %s%s%s%s", (unsigned long long)draw->seed, function->name,
                   missing < 0 ? "" : " without ", missing < 0 ? "" : function->names[missing],
                   missing < 0 ? "" : " (NULL)");
    trial_note(note);
    ls_status status = function->call(draw, missing);
    if (function->fails && status && !closes(function) && !*ls_error())
        trial_fail("%s: status %d without a message", note, status);
    bool tells = !strncmp(function->name, "ls_tools_check_", 15); /* what is wrong, in its output */
    if (function->fails && status && slots_filled() && !tells) trial_fail("%s: an output is written on failure", note);
    if (function->fails && missing >= 0 && !may_be_null(function, function->names[missing]) &&
        status != LS_INVALID_ARGUMENT)
        trial_fail("%s: status %d (%s)", note, status, status ? ls_error() : "");
    if (missing < 0 && !strcmp(function->name, "ls_communicator_release")) objects.memory = NULL;
    slots_clear();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* More than there is is asked for. */
const char *__asan_default_options(void); /* NOLINT: the sanitizers' names */
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}
#endif

static long every_null(uint64_t seed) {
    long calls = 0;
    for (size_t i = 0; i < FUNCTIONS; i++)
        for (int missing = 0; missing < functions[i].pointers; missing++) {
            struct draw draw = draw_from(seed, 1000 + (uint64_t)calls++);
            objects_make();
            try(&functions[i], &draw, missing);
            objects_free();
        }
    return calls;
}

static long some_calls(uint64_t seed) {
    struct draw draw = draw_from(seed, 1);
    objects_make();
    for (int i = 0; i < CALLS; i++) {
        const struct function *function = &functions[draw_below(&draw, FUNCTIONS)];
        bool whole = !function->pointers || !draw_once_in(&draw, 4);
        try(function, &draw, whole ? -1 : (int)draw_below(&draw, (size_t)function->pointers));
    }
    objects_free();
    return CALLS;
}

static long one_round(uint64_t seed) {
    char folder[] = "/tmp/lockstep-api-XXXXXX";
    static bool begun;
    if (!mkdtemp(folder) || chdir(folder)) trial_fail("no folder");
    if (!begun && !freopen("/dev/null", "w", stdout)) trial_fail("nowhere for the progress lines");
    long calls = begun ? some_calls(seed) : every_null(seed) + some_calls(seed);
    begun = true;
    if (chdir("/") || folder_remove(folder)) trial_fail("%s stays", folder);
    return calls;
}

int main(int argc, char **argv) {
    (void)unsetenv("TF_CONFIG");
    (void)setenv("LOCKSTEP_LOG", "error", 1);
    return trial_main(argc, argv, "property/api", one_round);
}
