/* Layers are drawn one by one, or two that part and join again, until the network takes them. */
#include "model/drawn_network.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "harness.h"
#include "model/layer_fields.h"

#define POINT(name) &ls_##name##_type,
static const struct ls_layer_type *const types[] = {LS_LAYER_TYPES(POINT)};
enum { TYPES = sizeof(types) / sizeof(types[0]), TRIES = 60 };
_Static_assert(TYPES <= DRAWN_KINDS, "each kind has a place");

struct drawing {
    uint64_t seed, drawn;
    struct drawn_network *network;
};

static size_t below(struct drawing *drawing, size_t count) {
    return ls_random_bits(drawing->seed, 0, drawing->drawn++) % count;
}

/* "input", or the name of one that is there. */
static const char *draw_name(struct drawing *drawing) {
    size_t at = below(drawing, drawing->network->count + 1);
    return at < drawing->network->count ? drawing->network->layers[at].name : "input";
}

static double draw_value(struct drawing *drawing, const struct ls_layer_field *field) {
    static const float reals[] = {0.5F, 0.1F, 1.0F / 3, 1e-5F, 0.99F, 2, -0.7F};
    int choices = 0;
    switch (field->type) {
    case LS_FIELD_BOOL:
        return 1;
    case LS_FIELD_FLOAT:
        return (double)reals[below(drawing, sizeof(reals) / sizeof(reals[0]))];
    case LS_FIELD_CHOICE:
        while (field->choice(choices)) choices++;
        return (double)below(drawing, (size_t)choices);
    default:
        return (double)(1 + below(drawing, 8));
    }
}

static bool is_taken(const struct ls_layer_type *type, const struct ls_layer_field *field) {
    static const char nothing[sizeof(ls_layer)];
    return memcmp((const char *)&type->takes + field->offset, nothing, field->size) != 0;
}

static ls_layer draw_layer(struct drawing *drawing, const struct ls_layer_type *type) {
    ls_layer layer = {.kind = type->kind};
    for (const struct ls_layer_field *field = ls_layer_fields; field->name; field++) {
        if (!is_taken(type, field) || (field->type != LS_FIELD_LAYERS && below(drawing, 3))) continue;
        if (!strcmp(field->name, "others"))
            for (size_t i = 0; i < 1 + below(drawing, 3); i++) layer.others[i] = draw_name(drawing);
        else if (field->type == LS_FIELD_LAYERS)
            layer.tied = draw_name(drawing);
        else
            (void)ls_layer_fields_set(field, &layer, draw_value(drawing, field));
    }
    if (layer.rope_theta > 0) layer.rope = true; /* it is the base of rope's angles */
    return layer;
}

static void add(struct drawing *drawing, ls_layer layer) {
    struct drawn_network *network = drawing->network;
    char *name = network->names[network->count];
    (void)snprintf(name, LS_LAYER_NAME_SIZE, "Layer-%zu.%zu", network->count, below(drawing, 1000));
    layer.name = name;
    network->layers[network->count++] = layer;
}

static bool fits(const struct drawn_network *drawn) {
    struct ls_network *network = NULL;
    ls_layer layers[DRAWN_LAYERS + 1];
    memcpy(layers, drawn->layers, sizeof(drawn->layers));
    layers[drawn->count] = (ls_layer)ls_dense(3, .name = "last");
    ls_status status = ls_network_new(layers, drawn->count + 1, &drawn->input, &network);
    bool small = !status && ls_network_blob_count(network) < 1 << 16;
    ls_network_free(network);
    return small;
}

/* There is no other place for one than the first; all four ids are its. */
static void add_embedding(struct drawing *drawing) {
    ls_layer layer = draw_layer(drawing, &ls_embedding_type);
    layer.units = (int)(1 + below(drawing, 8));
    layer.input_dim = (int)(4 + below(drawing, 5));
    add(drawing, layer);
    if (!fits(drawing->network)) drawing->network->count = 0;
}

static void note(const struct drawn_network *drawn, struct drawn_seen *seen) {
    static const ls_layer nothing;
    for (size_t i = 0; i < drawn->count; i++) {
        const ls_layer *layer = &drawn->layers[i];
        for (size_t k = 0; k < TYPES; k++) seen->kinds[k] |= types[k]->kind == layer->kind;
        for (size_t f = 0; ls_layer_fields[f].name; f++)
            seen->fields[f] |= memcmp((const char *)layer + ls_layer_fields[f].offset,
                                      (const char *)&nothing + ls_layer_fields[f].offset, ls_layer_fields[f].size) != 0;
        seen->input |= layer->input != NULL;
    }
}

void draw_network(uint64_t seed, struct drawn_network *drawn, struct drawn_seen *seen) {
    static const ls_shape inputs[] = {{3, {6, 5, 4}}, {2, {6, 8}}, {1, {6}}, {2, {5, 12}}};
    struct drawing drawing = {seed, 0, drawn};
    *drawn = (struct drawn_network){.input = inputs[below(&drawing, 4)]};
    if (drawn->input.rank == 1 && below(&drawing, 2)) add_embedding(&drawing);
    for (int i = 0; i < TRIES && drawn->count + 3 < DRAWN_LAYERS; i++) {
        size_t before = drawn->count;
        ls_layer layer = draw_layer(&drawing, types[below(&drawing, TYPES)]);
        if (before && !below(&drawing, 3)) {
            layer.input = draw_name(&drawing);
            add(&drawing, layer);
            layer = (ls_layer){.kind = below(&drawing, 2) ? LS_LAYER_CONCATENATE : LS_LAYER_ADD,
                               .others = {drawn->layers[before - 1].name}};
        }
        add(&drawing, layer);
        if (!fits(drawn)) drawn->count = before;
    }
    add(&drawing, (ls_layer)ls_dense(3));
    note(drawn, seen);
}

void check_seen(const struct drawn_seen *seen) {
    for (size_t k = 0; k < TYPES; k++) ck_assert_msg(seen->kinds[k], "no layer of kind %s", types[k]->title.name);
    for (size_t f = 0; ls_layer_fields[f].name; f++)
        ck_assert_msg(seen->fields[f], "no layer with %s", ls_layer_fields_key(&ls_layer_fields[f]));
    ck_assert(seen->input);
}
