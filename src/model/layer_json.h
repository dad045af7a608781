/* The layers of a network as JSON, by which a file of a model is one: [{"kind": "dense", "name": "dense", "units":
 * 10}]. A layer has a field for each of layer_fields.c that is not as the default is. Names of the layers that it takes
 * are "input", where it is not the one before, "others" and "tied". */
#pragma once
#include "model/layer.h"

#include <stdio.h>

#define LS_LAYERS_MEMBER "layers" /* of the object that ls_layer_json_read takes */

void ls_layer_json_write(const struct ls_network *network, FILE *out);
/* The layers of the object's member of that name, as ls_application gives them. INVALID_ARGUMENT without one, DATA_LOSS
 * for what is no JSON object. INVALID_ARGUMENT names layer and field of what is no layer: an unknown kind or field, a
 * value of another type, a name of no layer before it. ls_model_new tells what is
 * wrong with numbers. */
ls_status ls_layer_json_read(const char *object, ls_layer **layers, size_t *count);
