/* Slurm's short lists: "rack[0-1]_n[01-03],login" and "2(x3),1" (srun(1), SLURM_STEP_NODELIST and
 * SLURM_STEP_TASKS_PER_NODE). Leading zeros fix the digits. Several brackets multiply, the last one fastest. */
#include "resolver/readers.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/new.h"
#include "base/plain.h"

#define NAME_MOST 256

struct list {
    const char *variable, *text; /* for errors */
    char **names;
    int count, capacity;
};

static ls_status fail_at(const struct list *list, const char *at, const char *what) {
    return ls_fail(LS_INVALID_ARGUMENT, "%s='%.200s': %s at character %d", list->variable, list->text, what,
                   (int)(at - list->text) + 1);
}

static ls_status add_name(struct list *list, const char *name, const char *at) {
    if (list->count == LS_SLURM_NODES_MOST) return fail_at(list, at, "more than 65536 nodes");
    ls_status status = LS_GROW(list->names, list->capacity, list->count + 1, 16, "a list of nodes");
    if (status) return status;
    char *copy = ls_strdup(name);
    if (!copy) return ls_fail_memory("a node's name", strlen(name));
    list->names[list->count++] = copy;
    return LS_OK;
}

static ls_status expand_from(struct list *list, const char *at, const char *end, char *name, size_t used);

/* One number or range of a bracket; *at moves behind it. */
static ls_status read_range(const struct list *list, const char **at, long *first, long *last, int *width) {
    char *end = NULL;
    const char *begin = *at;
    errno = 0;
    if (!isdigit((unsigned char)*begin)) return fail_at(list, begin, "a number is missing");
    *first = *last = strtol(begin, &end, 10);
    *width = (int)(end - begin);
    if (*end == '-') {
        const char *second = end + 1;
        if (!isdigit((unsigned char)*second)) return fail_at(list, second, "a number is missing");
        *last = strtol(second, &end, 10);
    }
    if (errno || *last < *first || *last - *first >= LS_SLURM_NODES_MOST || *width > 18)
        return fail_at(list, begin, "a range that counts down, or is too long,");
    *at = end;
    return LS_OK;
}

/* A bracket at *at: each of its numbers, and for each the rest of the name. */
static ls_status expand_bracket(struct list *list, const char *at, const char *end, char *name, size_t used) {
    const char *close = memchr(at, ']', (size_t)(end - at));
    if (!close) return fail_at(list, at, "a bracket is not closed");
    for (at++; at < close; at += *at == ',') {
        long first = 0, last = -1;
        int width = 0;
        ls_status status = read_range(list, &at, &first, &last, &width);
        if (!status && *at != ',' && at != close) status = fail_at(list, at, "neither ',' nor ']'");
        for (long i = first; !status && i <= last; i++) {
            size_t longer = used + (size_t)snprintf(name + used, NAME_MOST - used, "%0*ld", width, i);
            status = longer < NAME_MOST ? expand_from(list, close + 1, end, name, longer)
                                        : fail_at(list, at, "a name of more than 255 characters");
        }
        if (status) return status;
    }
    return close[-1] == '[' || close[-1] == ',' ? fail_at(list, close, "a number is missing") : LS_OK;
}

/* The rest of one name, from at to end, behind the used characters of name. */
static ls_status expand_from(struct list *list, const char *at, const char *end, char *name, size_t used) {
    for (; at < end && *at != '['; at++) {
        bool fine = ls_plain_is_letter(*at) || isdigit((unsigned char)*at) || strchr("-._:", *at);
        if (!fine) return fail_at(list, at, "a character that no name of a host has");
        if (used + 1 >= NAME_MOST) return fail_at(list, at, "a name of more than 255 characters");
        name[used++] = *at;
    }
    name[used] = 0;
    return at < end ? expand_bracket(list, at, end, name, used) : add_name(list, name, at);
}

/* Behind the name that begins at at: a comma or blank outside of brackets, or the end. */
static const char *end_of_name(const char *at) {
    for (bool inside = false; *at; at++) {
        if (*at == '[') inside = true;
        if (*at == ']') inside = false;
        if (!inside && (*at == ',' || ls_plain_is_space(*at))) break;
    }
    return at;
}

ls_status ls_slurm_nodes_expand(const char *variable, const char *text, char ***names, int *count) {
    struct list list = {.variable = variable, .text = text};
    char name[NAME_MOST];
    ls_status status = LS_OK;
    for (const char *at = text; *at && !status;) {
        const char *end = end_of_name(at);
        status = end == at ? fail_at(&list, at, "a name is missing") : expand_from(&list, at, end, name, 0);
        at = end + (*end != 0);
        if (*end == ',' && !*at && !status) status = fail_at(&list, end, "a name is missing");
    }
    if (!status && !list.count) status = fail_at(&list, text, "a name is missing");
    if (!status) *count = list.count;
    return LS_HAND_OVER(status, names, list.names, ls_slurm_nodes_free(list.names, list.count));
}

void ls_slurm_nodes_free(char **names, int count) {
    for (int i = 0; i < count; i++) ls_free(names[i]);
    ls_free(names);
}

/* "2(x3)" or "2"; *at moves behind it. */
static bool read_repeat(const char **at, long *value, long *times) {
    char *end = NULL;
    if (!isdigit((unsigned char)**at)) return false;
    *value = strtol(*at, &end, 10);
    *times = 1;
    if (end[0] == '(' && end[1] == 'x' && isdigit((unsigned char)end[2])) {
        *times = strtol(end + 2, &end, 10);
        if (*end++ != ')') return false;
    }
    *at = end;
    return *value <= LS_SLURM_NODES_MOST && *times >= 1 && *times <= LS_SLURM_NODES_MOST;
}

ls_status ls_slurm_nodes_counts(const char *variable, const char *text, int *counts, int count) {
    const struct list list = {.variable = variable, .text = text};
    int filled = 0;
    for (const char *at = text;; at++) {
        long value = 0, times = 0;
        if (!read_repeat(&at, &value, &times)) return fail_at(&list, at, "no count like 2 or 2(x3)");
        for (; times; times--) {
            if (filled == count) return fail_at(&list, at, "more counts than there are nodes");
            counts[filled++] = (int)value;
        }
        if (!*at) break;
        if (*at != ',') return fail_at(&list, at, "no ','");
    }
    return filled == count ? LS_OK : fail_at(&list, text + strlen(text), "fewer counts than there are nodes");
}
