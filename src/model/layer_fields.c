/* The fields of a layer that are for some kinds only: one that says nothing to its kind is refused, and not ignored. */
#include "model/layer_fields.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "model/layer.h"
#include "model/network.h"

#define MEMBER(member) (((ls_layer *)NULL)->member)
#define NUMBER(name, word, member)                                                                                     \
    {                                                                                                                  \
        name, word, offsetof(ls_layer, member), sizeof(MEMBER(member)),                                                \
            _Generic(MEMBER(member), float                                                                             \
                     : LS_FIELD_FLOAT, bool                                                                            \
                     : LS_FIELD_BOOL, default                                                                          \
                     : LS_FIELD_INT)                                                                                   \
    }
#define FIELD(field)  NUMBER(#field, #field, field)
#define UNTOLD(field) NUMBER(#field, NULL, field)
#define LAYERS(field)                                                                                                  \
    { #field, NULL, offsetof(ls_layer, field), sizeof(MEMBER(field)), LS_FIELD_LAYERS }
#define CHOICE(field, word, choice)                                                                                    \
    { #field, word, offsetof(ls_layer, field), sizeof(MEMBER(field)), LS_FIELD_CHOICE, choice }

static const char *choose_activation(int value) {
    return ls_activation_name((ls_activation)value);
}

static const char *choose_initializer(int value) {
    return ls_initializer_name((ls_initializer)value);
}

static const char *choose_padding(int value) {
    static const char *const names[] = {[LS_VALID] = "valid", [LS_SAME] = "same", [LS_CAUSAL] = "causal"};
    return value >= 0 && value <= LS_CAUSAL ? names[value] : NULL;
}

const struct ls_layer_field ls_layer_fields[] = {
    UNTOLD(units),
    CHOICE(activation, NULL, choose_activation),
    CHOICE(kernel_initializer, NULL, choose_initializer),
    LAYERS(others),
    LAYERS(tied),
    FIELD(kernel_size),
    FIELD(kernel_width),
    FIELD(strides),
    CHOICE(padding, "padding", choose_padding),
    FIELD(dilation_rate),
    FIELD(groups),
    FIELD(no_bias),
    NUMBER("zeros", "top", zeros[0]),
    NUMBER("zeros", "bottom", zeros[1]),
    NUMBER("zeros", "left", zeros[2]),
    NUMBER("zeros", "right", zeros[3]),
    FIELD(momentum),
    FIELD(epsilon),
    FIELD(no_scale),
    FIELD(no_center),
    FIELD(synchronized),
    FIELD(fused),
    FIELD(rate),
    FIELD(negative_slope),
    FIELD(scale),
    FIELD(offset),
    FIELD(input_dim),
    UNTOLD(sparse),
    FIELD(per_position),
    FIELD(heads),
    FIELD(kv_heads),
    FIELD(window),
    FIELD(rope),
    FIELD(rope_theta),
    FIELD(no_causal_mask),
    FIELD(return_sequences),
    FIELD(kernel_l1),
    FIELD(kernel_l2),
    FIELD(stddev),
    FIELD(frozen),
    FIELD(rate_multiplier),
    {0},
};

double ls_layer_fields_value(const struct ls_layer_field *field, const ls_layer *layer) {
    const char *at = (const char *)layer + field->offset;
    int number;
    float real;
    if (field->type == LS_FIELD_BOOL) return *(const bool *)at;
    if (field->type == LS_FIELD_FLOAT) {
        memcpy(&real, at, sizeof(real));
        return (double)real;
    }
    memcpy(&number, at, sizeof(number));
    return number;
}

bool ls_layer_fields_set(const struct ls_layer_field *field, ls_layer *layer, double value) {
    char *at = (char *)layer + field->offset;
    const bool flag = value > 0;
    const float real = (float)value;
    if (field->type == LS_FIELD_FLOAT) {
        if (!isfinite(real)) return false;
        memcpy(at, &real, sizeof(real));
        return true;
    }
    if (!(value >= INT_MIN && value <= INT_MAX) || value != floor(value)) return false;
    const int number = (int)value;
    if (field->type == LS_FIELD_BOOL && number != flag) return false;
    if (field->type == LS_FIELD_CHOICE && !field->choice(number)) return false;
    if (field->type == LS_FIELD_BOOL)
        memcpy(at, &flag, sizeof(flag));
    else
        memcpy(at, &number, sizeof(number));
    return true;
}

const char *ls_layer_fields_key(const struct ls_layer_field *field) {
    return field->word ? field->word : field->name;
}

const struct ls_layer_field *ls_layer_fields_find(const char *key) {
    for (const struct ls_layer_field *field = ls_layer_fields; field->name; field++)
        if (!strcmp(ls_layer_fields_key(field), key)) return field;
    return NULL;
}

static bool is_set(const ls_layer *layer, const struct ls_layer_field *field) {
    const char *bytes = (const char *)layer + field->offset;
    for (size_t i = 0; i < field->size; i++)
        if (bytes[i]) return true;
    return false;
}

ls_status ls_layer_fields_check(const struct ls_node *node, size_t position) {
    for (const struct ls_layer_field *field = ls_layer_fields; field->name; field++)
        if (is_set(&node->layer, field) && !is_set(&node->type->takes, field))
            return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): this kind of layer has no %s; leave the field out",
                           position, node->title.name, field->name);
    return LS_OK;
}

ls_status ls_layer_fields_check_kernel(const struct ls_node *node, size_t position, const char *units, int least) {
    const ls_layer *layer = &node->layer;
    const char *kind = node->title.name;
    if (layer->units < least)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): %s %d must be 1 or more", position, kind, units,
                       layer->units);
    if (!ls_initializer_name(layer->kernel_initializer))
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu (%s): kernel_initializer %d is no ls_initializer", position,
                       kind, (int)layer->kernel_initializer);
    return ls_activation_check(node, position);
}
