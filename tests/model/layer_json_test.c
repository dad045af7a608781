/* Layers as JSON: drawn networks come back as they were, and what is no layer is one error that names it. */
#include "model/layer_json.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "harness.h"
#include "model/drawn_network.h"

enum { NETWORKS = 4000 };

static char *write_object(const struct ls_network *network) {
    char *text = NULL;
    assert_ok(LS_TEXT(out, (fputs("{\"layers\": ", out), ls_layer_json_write(network, out), fputc('}', out)), "layers",
                      &text));
    return text;
}

/* A text for the network of those layers, and its description. */
static char *write_layers(const ls_layer *layers, size_t count, const ls_shape *input, char **description) {
    struct ls_network *network = NULL;
    assert_ok(ls_network_new(layers, count, input, &network));
    assert_ok(ls_network_describe(network, description));
    char *text = write_object(network);
    ls_network_free(network);
    return text;
}

TEST(drawn_networks_come_back) {
    struct drawn_seen seen = {{0}};
    for (uint64_t seed = 0; seed < NETWORKS; seed++) {
        struct drawn_network drawn;
        draw_network(seed, &drawn, &seen);
        char *before = NULL, *after = NULL;
        ls_layer *layers = NULL;
        size_t count = 0;
        char *text = write_layers(drawn.layers, drawn.count, &drawn.input, &before);
        assert_ok(ls_layer_json_read(text, &layers, &count));
        ck_assert_uint_eq(count, drawn.count);
        char *again = write_layers(layers, count, &drawn.input, &after);
        ck_assert_msg(!strcmp(before, after), "seed %llu: %s\n%s", (unsigned long long)seed, before, after);
        ck_assert_str_eq(text, again);
        ls_free(layers);
        ls_free(before);
        ls_free(after);
        ls_free(text);
        ls_free(again);
    }
    check_seen(&seen);
}

#define LAYER(more)                                                                                                    \
    "{\"layers\": [{\"kind\": \"dense\", \"name\": \"a\", \"units\": 2}, {\"kind\": \"dense\", \"name\": \"b\"" more   \
    "}]}"

TEST(what_is_no_layer_is_named) {
    static const struct {
        const char *text, *says;
    } bad[] = {
        {LAYER(", \"color\": 3"), "layer 1: field 'color' is unknown"},
        {LAYER(", \"units\": 2.5"), "layer 1: field 'units' is no number that it can have"},
        {LAYER(", \"units\": 1e99"), "layer 1: field 'units' is no number that it can have"},
        {LAYER(", \"units\": \"2\""), "layer 1: field 'units' is no number"},
        {LAYER(", \"units\": 2, \"units\": 3"), "layer 1: field 'units' is there twice"},
        {LAYER(", \"kernel_l1\": 1e99"), "layer 1: field 'kernel_l1' is no number that it can have"},
        {LAYER(", \"frozen\": 1"), "layer 1: field 'frozen' is neither true nor false"},
        {LAYER(", \"activation\": \"relu9\""), "layer 1: field 'activation' has a value that is none of its own"},
        {LAYER(", \"activation\": 1"), "layer 1: field 'activation' has a value that is none of its own"},
        {LAYER(", \"input\": \"b\""), "layer 1: field 'input' names what is no layer before it"},
        {LAYER(", \"tied\": 3"), "layer 1: field 'tied' names what is no layer before it"},
        {LAYER(", \"others\": \"a\""), "layer 1: field 'others' is no list of names"},
        {LAYER(", \"others\": [\"a\", \"z\"]"), "layer 1: field 'others' names what is no layer before it"},
        {LAYER(", \"others\": [\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]"), "has more names than a layer takes"},
        {"{\"layers\": [{\"kind\": \"maxout\", \"name\": \"x\"}]}", "layer 0 ('x'): its kind is unknown"},
        {"{\"layers\": [{\"kind\": \"dense\"}]}", "layer 0: it is no object with a name"},
        {"{\"layers\": [7]}", "layer 0: it is no object with a name"},
        {"{\"layers\": []}", "does not say the layers"},
        {"{\"layers\": {}}", "does not say the layers"},
        {"{}", "does not say the layers"},
    };
    ls_layer *layers = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(ls_layer_json_read(bad[i].text, &layers, &count), bad[i].says);
    assert_fails(ls_layer_json_read("[", &layers, &count), LS_DATA_LOSS, "no JSON object");
    ck_assert_ptr_null(layers);
}

TESTS("layers as JSON", .seconds = 60)
