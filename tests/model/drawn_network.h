/* Networks of layers of any kind with any of their fields, drawn from a seed, by the table of kinds and that of fields:
 * a new kind or field is drawn as soon as it is in its table. */
#pragma once
#include <lockstep/lockstep.h>

#include "model/layer.h"

#define DRAWN_LAYERS 12
#define DRAWN_FIELDS 64
#define DRAWN_KINDS  64

struct drawn_network {
    ls_layer layers[DRAWN_LAYERS];
    char names[DRAWN_LAYERS][LS_LAYER_NAME_SIZE];
    size_t count;
    ls_shape input; /* of whole numbers from 0 to 3 */
};
/* Notes what was drawn so far: kinds in the order of LS_LAYER_TYPES, fields in that of ls_layer_fields. */
struct drawn_seen {
    bool kinds[DRAWN_KINDS], fields[DRAWN_FIELDS];
    bool input;
};
/* A network that ls_network_new takes, whose last layer gives three classes. It holds its own names: it may not be
 * moved. */
void draw_network(uint64_t seed, struct drawn_network *drawn, struct drawn_seen *seen);
/* Fails naming a kind or a field that was not drawn. */
void check_seen(const struct drawn_seen *seen);
