/* Which fields of a layer are for which kinds. */
#pragma once
#include "model/layer.h"

struct ls_layer_field {
    const char *name;
    const char *word; /* in descriptions; NULL if another word or the shapes tell the field */
    size_t offset, size;
    enum { LS_FIELD_INT, LS_FIELD_BOOL, LS_FIELD_FLOAT, LS_FIELD_CHOICE, LS_FIELD_LAYERS } type;
    const char *(*choice)(int value); /* the name of a choice's value; NULL: there is none */
};
extern const struct ls_layer_field ls_layer_fields[]; /* ends with a row without name */
/* For takes: the fields of a layer that has variables, and of one that has a kernel. */
#define LS_LAYER_VARIABLE_FIELDS .frozen = true, .rate_multiplier = 1
#define LS_LAYER_KERNEL_FIELDS                                                                                         \
    .units = 1, .activation = LS_RELU, .kernel_initializer = LS_ONES, .no_bias = true, .negative_slope = 1,            \
    .kernel_l1 = 1, .kernel_l2 = 1, .stddev = 1, LS_LAYER_VARIABLE_FIELDS

/* Of a field that holds no names of layers. */
double ls_layer_fields_value(const struct ls_layer_field *field, const ls_layer *layer);
/* False where value is none of the field's type: a whole number of int, 0 or 1, a finite float. */
bool ls_layer_fields_set(const struct ls_layer_field *field, ls_layer *layer, double value);
/* The name by which a file knows a field: each is another one. */
const char *ls_layer_fields_key(const struct ls_layer_field *field);
/* NULL: there is none. */
const struct ls_layer_field *ls_layer_fields_find(const char *key);
/* For check. INVALID_ARGUMENT naming a field that is set and says nothing to this kind of layer (layer_fields.c). */
ls_status ls_layer_fields_check(const struct ls_node *node, size_t position);
/* The same of units, initializer and activation of who has a kernel. least: the fewest units. */
ls_status ls_layer_fields_check_kernel(const struct ls_node *node, size_t position, const char *units, int least);
