/* A network as one text that is equal exactly when the networks are. */
#include "model/network.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/shape.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/layer.h"
#include "model/layer_fields.h"
#include "base/plain.h"

/* Text that grows. */
struct text {
    char *at;
    size_t used, size;
};

static void add_text(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_text(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = ls_plain_list(text->at + text->used, text->size - text->used, format, arguments);
    va_end(arguments);
    if (length > 0) text->used += (size_t)length;
}

static void add_number(struct text *text, const char *name, double value) {
    if (value != 0) add_text(text, " %s=%.9g", name, value);
}

/* The fields that are not as the default is. */
static void add_fields(struct text *text, const struct ls_node *node) {
    if (node->type->described_units) add_number(text, node->type->described_units, node->layer.units);
    for (const struct ls_layer_field *field = ls_layer_fields; field->name; field++)
        if (field->word) add_number(text, field->word, ls_layer_fields_value(field, &node->layer));
}

/* The inputs, where they are not just the node before. */
static void add_inputs(struct text *text, const struct ls_network *network, const struct ls_node *node) {
    if (node->input_count == 1 && node->inputs[0] == (int)node->index - 1) return;
    for (int i = 0; i < node->input_count; i++) {
        int input = node->inputs[i];
        add_text(text, "%s%s", i ? " + " : " of ",
                 input == LS_NETWORK_INPUT ? "input" : ls_network_node(network, (size_t)input)->name);
    }
}

static void add_node(struct text *text, const struct ls_network *network, const struct ls_node *node) {
    char shape[192]; /* all eight extents fit */
    ls_shape_text(&node->output, shape, sizeof(shape));
    add_text(text, "; %s %s(%s", node->name, node->title.name, ls_activation_name(node->layer.activation));
    add_fields(text, node);
    add_text(text, ")");
    add_inputs(text, network, node);
    add_text(text, " -> %s", shape);
}

static void add_variable(struct text *text, const struct ls_network_variable *variable) {
    char shape[192];
    ls_shape_text(&variable->shape, shape, sizeof(shape));
    add_text(text, "; %s float32 %s %s", variable->name, shape, ls_initializer_name(variable->initializer));
}

ls_status ls_network_describe(const struct ls_network *network, char **text) {
    char shape[192];
    size_t nodes = ls_network_layer_count(network);
    size_t variables = (size_t)(ls_network_variable_count(network) + ls_network_table_count(network));
    size_t size = 128 + nodes * 1600 + variables * 320; /* a piece is less */
    struct text made = {ls_alloc(size), 0, size};
    if (!made.at) return ls_fail_memory("the description of a network", size);
    ls_shape_text(ls_network_input(network), shape, sizeof(shape));
    add_text(&made, "input %s", shape);
    for (size_t i = 0; i < nodes; i++) {
        const struct ls_node *node = ls_network_node(network, i);
        add_node(&made, network, node);
        for (int v = 0; v < node->variable_count; v++) add_variable(&made, ls_network_variable_of(network, node, v));
        for (int v = 0; v < node->table_count; v++)
            add_variable(&made, ls_network_table(network, node->first_table + v));
    }
    *text = made.at;
    return LS_OK;
}
