/* Names of layers: they become names of variables, so they must be unique, and must not hold a '/'. */
#include "model/layer.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

static bool name_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

static ls_status check_name(const char *name, size_t position) {
    size_t length = 0;
    if (!*name)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: name is empty; leave it out for an automatic one", position);
    for (; name[length]; length++)
        if (!name_letter(name[length]))
            return ls_fail(LS_INVALID_ARGUMENT,
                           "layer %zu: name '%.80s' must consist of letters, digits, '_', '-' and '.'", position, name);
    if (length < LS_LAYER_NAME_SIZE) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: name '%.80s' must be shorter than %d bytes", position, name,
                   LS_LAYER_NAME_SIZE);
}

/* The node that has this name already, or count. */
static size_t find_name(const struct ls_node *nodes, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(nodes[i].name, name)) return i;
    return count;
}

static ls_status take_names(struct ls_node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *name = nodes[i].layer.name;
        if (!name) continue;
        ls_status status = check_name(name, i);
        if (status) return status;
        size_t other = find_name(nodes, count, name);
        if (other < count)
            return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: name '%s' is layer %zu's already", i, name, other);
        (void)snprintf(nodes[i].name, sizeof(nodes[i].name), "%s", name);
    }
    return LS_OK;
}

/* The number of layers before this one with an automatic name from the same base. */
static size_t count_before(const struct ls_node *nodes, size_t position, const char *base) {
    size_t before = 0;
    for (size_t i = 0; i < position; i++)
        before += nodes[i].layer.name == nodes[i].name && !strcmp(nodes[i].title.name, base);
    return before;
}

static void number_name(struct ls_node *nodes, size_t count, size_t position) {
    struct ls_node *node = &nodes[position];
    const char *base = node->title.name;
    char name[LS_LAYER_NAME_SIZE];
    size_t number = count_before(nodes, position, base);
    (void)snprintf(name, sizeof(name), number ? "%s_%zu" : "%s", base, number);
    while (find_name(nodes, count, name) < count) (void)snprintf(name, sizeof(name), "%s_%zu", base, ++number);
    memcpy(node->name, name, sizeof(name));
    node->layer.name = node->name;
}

ls_status ls_layer_names(struct ls_node *nodes, size_t count) {
    ls_status status = take_names(nodes, count);
    if (status) return status;
    for (size_t i = 0; i < count; i++)
        if (!nodes[i].layer.name) number_name(nodes, count, i);
    for (size_t i = 0; i < count; i++) nodes[i].layer.name = nodes[i].name; /* no longer the user's memory */
    return LS_OK;
}
