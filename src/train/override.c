/* In the descriptions they stand as "optimizer=sgd(learning_rate=0.1, momentum=0.9)". */
#include "train/checkpointing.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "checkpoint/manifest.h"

#define OPTIMIZER "optimizer="
#define RATE      "learning_rate"
#define ALL       RATE ",momentum,beta_1,beta_2,epsilon,rho,weight_decay,clipvalue,clipnorm,global_clipnorm,schedule"

/* The next word of a list, up to a comma; false: there is none. */
static bool next_name(const char **list, char name[32]) {
    size_t length = strcspn(*list, ",");
    if (!**list) return false;
    (void)snprintf(name, 32, "%.*s", (int)(length < 31 ? length : 31), *list);
    *list += length + ((*list)[length] == ',');
    return true;
}

static bool is_listed(const char *list, const char *wanted) {
    char name[32];
    while (next_name(&list, name))
        if (!strcmp(name, wanted)) return true;
    return false;
}

ls_status ls_override_check(const char *names) {
    char name[32];
    const char *list = names ? names : "";
    if (names && !*names) return ls_fail(LS_INVALID_ARGUMENT, "checkpoint: overrides is empty; it may have " ALL);
    while (next_name(&list, name))
        if (!is_listed(ALL, name))
            return ls_fail(LS_INVALID_ARGUMENT, "checkpoint: overrides '%s' is none of " ALL, name);
    return LS_OK;
}

/* Takes the value of a number out of a description; "none" where there is none. */
static void take_field(char *text, const char *name, char *value, size_t size) {
    char wanted[40], *line = strstr(text, "\n" OPTIMIZER), *end;
    (void)snprintf(value, size, "none");
    line = line ? line + 1 : text;
    end = line + strcspn(line, "\n");
    (void)snprintf(wanted, sizeof(wanted), "%s=", name);
    char *found = strstr(line, wanted);
    while (found && found < end && found[-1] != '(' && found[-1] != ' ') found = strstr(found + 1, wanted);
    if (strncmp(line, OPTIMIZER, strlen(OPTIMIZER)) != 0 || !found || found >= end) return;
    char *begin = found + strlen(wanted), *after = begin + strcspn(begin, ",)\n");
    if (!strcmp(name, "schedule")) after = end - 1; /* it has commas, and is the last */
    (void)snprintf(value, size, "%.*s", (int)(after - begin), begin);
    if (found[-1] == ' ')
        found -= strlen(", ");
    else if (*after == ',')
        after += strlen(", ");
    memmove(found, after, strlen(after) + 1);
}

static void note_change(const char *name, const char *there, const char *here, struct ls_override *override) {
    size_t names = strlen(override->names), told = strlen(override->told);
    (void)snprintf(override->names + names, sizeof(override->names) - names, "%s%s", names ? "," : "", name);
    (void)snprintf(override->told + told, sizeof(override->told) - told, "%s%s is %s, was %s", told ? "; " : "", name,
                   here, there);
    if (!strcmp(name, RATE) || !strcmp(name, "schedule")) override->rate = true;
}

/* Without momentum an optimizer keeps no mean of the gradients. */
static bool begins_or_ends(const char *name, const char *there, const char *here) {
    return !strcmp(name, "momentum") && !strcmp(there, "0") != !strcmp(here, "0");
}

static ls_status compare_fields(const char *names, const char *there, const char *here, struct ls_override *override) {
    LS_CLEANUP(ls_free_pointer) char *first = ls_strdup(there);
    LS_CLEANUP(ls_free_pointer) char *second = ls_strdup(here);
    char name[32], values[2][LS_OVERRIDES_TEXT];
    if (!first || !second) return ls_fail_memory("the description of a training", strlen(there) + strlen(here));
    while (next_name(&names, name)) {
        take_field(first, name, values[0], sizeof(values[0]));
        take_field(second, name, values[1], sizeof(values[1]));
        if (begins_or_ends(name, values[0], values[1]))
            return ls_fail(LS_FAILED_PRECONDITION,
                           "momentum differs: '%s' there, '%s' here: the checkpoint has other "
                           "state than this optimizer",
                           values[0], values[1]);
        if (strcmp(values[0], values[1]) != 0) note_change(name, values[0], values[1], override);
    }
    return ls_manifest_compare(first, second);
}

ls_status ls_override_compare(const char *names, const char *there, const char *here, struct ls_override *override) {
    char error[LS_ERROR_SIZE];
    struct ls_override possible = {.rate = false};
    *override = possible;
    if (!compare_fields(names ? names : "", there, here, override)) return LS_OK;
    (void)snprintf(error, sizeof(error), "%s", ls_error());
    if (compare_fields(ALL, there, here, &possible))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "it belongs to another training: %s; take another folder, with --weights FILE to go on from it",
                       error);
    return ls_fail(LS_INVALID_ARGUMENT,
                   "it belongs to another training: %s; to go on with the new value take --checkpoint-override %s "
                   "(ls_checkpoint_options.overrides), else another folder, with --weights FILE to go on from it",
                   error, possible.names);
}
