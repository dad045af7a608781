/* Names are compared by their edit distance: of letters that are changed, left out or put in. */
#include "base/settings.h"

#include <string.h>
#include <unistd.h>

#define PREFIX "LOCKSTEP_"
#define FAR    4 /* edits of a name that is another one */

extern char **environ;

static bool begins_with(const char *text, const char *start) {
    return !strncmp(text, start, strlen(start));
}

/* "LOCKSTEP_WORKER_0_SERVICE_HOST", "LOCKSTEP_PORT_2222_TCP": Kubernetes', of a service named lockstep-worker-0. */
static bool is_of_a_service(const char *name) {
    size_t length = strlen(name);
    return strstr(name, "_SERVICE_HOST") || strstr(name, "_SERVICE_PORT") || strstr(name, "_PORT_") ||
           (length > 5 && !strcmp(name + length - 5, "_PORT"));
}

static bool is_others(const char *name) {
    static const char *const prefixes[] = {"LOCKSTEP_TEST_", "LOCKSTEP_FAR_", "LOCKSTEP_EMULATED_", "LOCKSTEP_LIBRARY"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (begins_with(name, prefixes[i])) return true;
    return is_of_a_service(name);
}

static size_t least(size_t a, size_t b, size_t c) {
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

static size_t distance(const char *a, const char *b) {
    size_t row[LS_UNKNOWN_NAME], width = strlen(b);
    for (size_t j = 0; j <= width; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            size_t above = row[j];
            row[j] = least(row[j - 1] + 1, above + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[width];
}

/* True if it is a setting. Otherwise *nearest is the setting that is most like it. */
static bool find_nearest(const char *name, const char **nearest) {
    size_t best = FAR;
    *nearest = NULL;
    for (size_t i = 0; ls_settings_name(i); i++) {
        size_t edits = distance(name, ls_settings_name(i));
        if (!edits) return true;
        if (edits >= best) continue;
        best = edits;
        *nearest = ls_settings_name(i);
    }
    return false;
}

bool ls_unknown_next(size_t *at, struct ls_unknown *unknown) {
    while (environ && environ[*at]) {
        const char *variable = environ[(*at)++];
        size_t length = strcspn(variable, "=");
        if (!begins_with(variable, PREFIX) || length >= LS_UNKNOWN_NAME) continue;
        memcpy(unknown->name, variable, length);
        unknown->name[length] = 0;
        if (!is_others(unknown->name) && !find_nearest(unknown->name, &unknown->nearest)) return true;
    }
    return false;
}
