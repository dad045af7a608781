/* A network as a table for people: a line a layer, and the counts of parameters. Mirrors tf.keras.Model.summary. */
#include "model/summary.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/shape.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/layer.h"
#include "model/network.h"
#include "base/plain.h"

/* 2260546 as "2,260,546". */
static const char *with_commas(size_t number, char text[32]) {
    char digits[32];
    int length = snprintf(digits, sizeof(digits), "%zu", number), used = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

/* "(None, 112, 112, 32)" */
static void output_text(const struct ls_node *node, char *text, size_t size) {
    char shape[192];
    ls_shape_text(&node->output, shape, sizeof(shape));
    (void)snprintf(text, size, node->output.rank ? "(None, %s" : "(None%s", shape + 1);
}

static void print_node(FILE *out, const struct ls_network *network, const struct ls_node *node) {
    char name[LS_LAYER_NAME_SIZE + 32], shape[224], count[32];
    size_t parameters = 0;
    for (int v = 0; v < node->variable_count; v++) parameters += ls_network_variable_of(network, node, v)->count;
    for (int t = 0; t < node->table_count; t++) parameters += ls_network_table(network, node->first_table + t)->count;
    (void)snprintf(name, sizeof(name), "%s (%s)", node->name, node->title.class_name);
    output_text(node, shape, sizeof(shape));
    (void)fprintf(out, "%-52s %-24s %12s ", name, shape, with_commas(parameters, count));
    for (int i = 0; i < node->input_count; i++)
        (void)fprintf(out, "%s%s", i ? ", " : " ",
                      node->inputs[i] == LS_NETWORK_INPUT ? "input"
                                                          : ls_network_node(network, (size_t)node->inputs[i])->name);
    (void)fputc('\n', out);
}

static void print_total(FILE *out, const char *what, size_t count) {
    char text[32];
    (void)ls_plain_print(out, "%s params: %s (%.2f MB)\n", what, with_commas(count, text),
                         (double)count * sizeof(float) / (1 << 20));
}

static void print_all(FILE *out, const struct ls_network *network) {
    size_t trainable = 0, others = 0;
    (void)fprintf(out, "%-52s %-24s %12s  %s\n", "Layer (type)", "Output Shape", "Param #", "Connected to");
    for (size_t i = 0; i < ls_network_layer_count(network); i++) print_node(out, network, ls_network_node(network, i));
    for (int v = 0; v < ls_network_variable_count(network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(network, v);
        *(variable->trained ? &trainable : &others) += variable->count;
    }
    for (int t = 0; t < ls_network_table_count(network); t++) trainable += ls_network_table(network, t)->count;
    print_total(out, "Total", trainable + others);
    print_total(out, "Trainable", trainable);
    print_total(out, "Non-trainable", others);
}

ls_status ls_network_summary(const struct ls_network *network, char **text) {
    return LS_TEXT(out, print_all(out, network), "a model's summary", text);
}
