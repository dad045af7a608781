/* A network as one text that is equal exactly when the networks are. */
#include "model/network.h"

#include <stdio.h>

#include "base/shape.h"
#include "base/text.h"
#include "model/layer.h"
#include "model/layer_fields.h"
#include "base/plain.h"

static void add_number(FILE *out, const char *name, double value) {
    if (value != 0) (void)ls_plain_print(out, " %s=%.9g", name, value);
}

/* The fields that are not as the default is. */
static void add_fields(FILE *out, const struct ls_node *node) {
    if (node->type->described_units) add_number(out, node->type->described_units, node->layer.units);
    for (const struct ls_layer_field *field = ls_layer_fields; field->name; field++)
        if (field->word) add_number(out, field->word, ls_layer_fields_value(field, &node->layer));
}

/* The inputs, where they are not just the node before. */
static void add_inputs(FILE *out, const struct ls_network *network, const struct ls_node *node) {
    if (node->input_count == 1 && node->inputs[0] == (int)node->index - 1) return;
    for (int i = 0; i < node->input_count; i++) {
        int input = node->inputs[i];
        (void)fprintf(out, "%s%s", i ? " + " : " of ",
                      input == LS_NETWORK_INPUT ? "input" : ls_network_node(network, (size_t)input)->name);
    }
}

static void add_tied(FILE *out, const struct ls_network *network, const struct ls_node *node) {
    if (node->tied != LS_NO_NODE) (void)fprintf(out, " tied to %s", ls_network_node(network, (size_t)node->tied)->name);
}

static void add_node(FILE *out, const struct ls_network *network, const struct ls_node *node) {
    char shape[192]; /* all eight extents fit */
    ls_shape_text(&node->output, shape, sizeof(shape));
    (void)fprintf(out, "; %s %s(%s", node->name, node->title.name, ls_activation_name(node->layer.activation));
    add_fields(out, node);
    (void)fputc(')', out);
    add_inputs(out, network, node);
    add_tied(out, network, node);
    (void)fprintf(out, " -> %s", shape);
}

static void add_variable(FILE *out, const struct ls_network_variable *variable) {
    char shape[192];
    ls_shape_text(&variable->shape, shape, sizeof(shape));
    (void)fprintf(out, "; %s float32 %s %s", variable->name, shape, ls_initializer_name(variable->initializer));
}

static void add_all(FILE *out, const struct ls_network *network) {
    char shape[192];
    ls_shape_text(ls_network_input(network), shape, sizeof(shape));
    (void)fprintf(out, "input %s", shape);
    for (size_t i = 0; i < ls_network_layer_count(network); i++) {
        const struct ls_node *node = ls_network_node(network, i);
        add_node(out, network, node);
        for (int v = 0; v < node->variable_count; v++) add_variable(out, ls_network_variable_of(network, node, v));
        for (int v = 0; v < node->table_count; v++) add_variable(out, ls_network_table(network, node->first_table + v));
    }
}

ls_status ls_network_describe(const struct ls_network *network, char **text) {
    return LS_TEXT(out, add_all(out, network), "the description of a network", text);
}
