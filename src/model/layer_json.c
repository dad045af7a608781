/* Layers to JSON and back, by the table of kinds and that of fields: a new kind or field has no line here. */
#include "model/layer_json.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/plain.h"
#include "base/status.h"
#include "model/layer_fields.h"
#include "model/layer_list.h"

/* ---- to ---- */

static const char *name_of(const struct ls_network *network, int node) {
    return node == LS_NETWORK_INPUT ? "input" : ls_network_node(network, (size_t)node)->name;
}

static void put_field(const struct ls_node *node, const struct ls_layer_field *field, FILE *out) {
    double value = field->type == LS_FIELD_LAYERS ? 0 : ls_layer_fields_value(field, &node->layer);
    if (value == 0) return;
    ls_json_print(out, ", %s: ", ls_layer_fields_key(field));
    if (field->type == LS_FIELD_BOOL) ls_json_print(out, "true");
    if (field->type == LS_FIELD_CHOICE) ls_json_put(out, field->choice((int)value));
    if (field->type == LS_FIELD_INT) ls_json_print(out, "%d", (int)value);
    if (field->type == LS_FIELD_FLOAT) ls_json_print(out, "%.9g", value);
}

static void put_inputs(const struct ls_network *network, const struct ls_node *node, FILE *out) {
    if (node->inputs[0] != (int)node->index - 1) ls_json_print(out, ", 'input': %s", name_of(network, node->inputs[0]));
    for (int i = 1; i < node->input_count; i++)
        ls_json_print(out, "%-s%s", i > 1 ? ", " : ", \"others\": [", name_of(network, node->inputs[i]));
    if (node->input_count > 1) (void)fputc(']', out);
    if (node->tied != LS_NO_NODE) ls_json_print(out, ", 'tied': %s", name_of(network, node->tied));
}

void ls_layer_json_write(const struct ls_network *network, FILE *out) {
    for (size_t i = 0; i < ls_network_layer_count(network); i++) {
        const struct ls_node *node = ls_network_node(network, i);
        ls_json_print(out, "%-s{'kind': %s, 'name': %s", i ? ", " : "[", node->type->title.name, node->name);
        put_inputs(network, node, out);
        for (const struct ls_layer_field *field = ls_layer_fields; field->name; field++) put_field(node, field, out);
        (void)fputc('}', out);
    }
    (void)fputc(']', out);
}

/* ---- from ---- */

#define POINT(name) &ls_##name##_type,
static const struct ls_layer_type *const types[] = {LS_LAYER_TYPES(POINT)};

static const struct ls_layer_type *find_kind(const cJSON *kind) {
    for (size_t i = 0; cJSON_IsString(kind) && i < sizeof(types) / sizeof(types[0]); i++)
        if (!strcmp(types[i]->title.name, kind->valuestring)) return types[i];
    return NULL;
}

/* Of the layer after those that the list has. */
static ls_status refuse(const struct ls_layer_list *list, const cJSON *item, const char *why) {
    return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: field '%.80s' %s", list->count, item->string, why);
}

/* The list's own name of a layer before, or "input", for item's value; NULL: it is none. */
static const char *find_layer(const struct ls_layer_list *list, const cJSON *item) {
    for (size_t i = 0; cJSON_IsString(item) && i < list->count; i++)
        if (!strcmp(list->names[i], item->valuestring)) return list->names[i];
    return cJSON_IsString(item) && !strcmp(item->valuestring, "input") ? "input" : NULL;
}

static ls_status read_others(const struct ls_layer_list *list, const cJSON *item, ls_layer *layer) {
    int count = 0;
    if (!cJSON_IsArray(item)) return refuse(list, item, "is no list of names");
    for (const cJSON *name = item->child; name; name = name->next) {
        if (count == LS_MAX_OTHER_INPUTS) return refuse(list, item, "has more names than a layer takes");
        layer->others[count] = find_layer(list, name);
        if (!layer->others[count++]) return refuse(list, item, "names what is no layer before it");
    }
    return LS_OK;
}

static ls_status read_name(const struct ls_layer_list *list, const cJSON *item, const char **name) {
    *name = find_layer(list, item);
    return *name ? LS_OK : refuse(list, item, "names what is no layer before it");
}

static ls_status read_choice(const struct ls_layer_list *list, const cJSON *item, const struct ls_layer_field *field,
                             ls_layer *layer) {
    for (int value = 0; cJSON_IsString(item) && field->choice(value); value++)
        if (!strcmp(field->choice(value), item->valuestring))
            return ls_layer_fields_set(field, layer, value) ? LS_OK : refuse(list, item, "has no such value");
    return refuse(list, item, "has a value that is none of its own");
}

static ls_status read_field(const struct ls_layer_list *list, const cJSON *item, ls_layer *layer) {
    const struct ls_layer_field *field = ls_layer_fields_find(item->string);
    if (!field) return refuse(list, item, "is unknown: another version of Lockstep may know it");
    if (field->type == LS_FIELD_CHOICE) return read_choice(list, item, field, layer);
    bool flag = field->type == LS_FIELD_BOOL;
    if (!(flag ? cJSON_IsBool(item) : cJSON_IsNumber(item)))
        return refuse(list, item, flag ? "is neither true nor false" : "is no number");
    double value = flag ? cJSON_IsTrue(item) : item->valuedouble;
    return ls_layer_fields_set(field, layer, value) ? LS_OK : refuse(list, item, "is no number that it can have");
}

static ls_status read_item(const struct ls_layer_list *list, const cJSON *object, const cJSON *item, ls_layer *layer) {
    if (cJSON_GetObjectItemCaseSensitive(object, item->string) != item) return refuse(list, item, "is there twice");
    if (!strcmp(item->string, "kind") || !strcmp(item->string, "name")) return LS_OK;
    if (!strcmp(item->string, "input")) return read_name(list, item, &layer->input);
    if (!strcmp(item->string, "tied")) return read_name(list, item, &layer->tied);
    if (!strcmp(item->string, "others")) return read_others(list, item, layer);
    return read_field(list, item, layer);
}

static ls_status read_layer(const cJSON *object, struct ls_layer_list *list) {
    const struct ls_layer_type *type = find_kind(cJSON_GetObjectItemCaseSensitive(object, "kind"));
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(object, "name");
    if (!cJSON_IsString(name) || !*name->valuestring || strlen(name->valuestring) >= LS_LAYER_NAME_SIZE)
        return ls_fail(LS_INVALID_ARGUMENT, "layer %zu: it is no object with a name of less than %d bytes", list->count,
                       LS_LAYER_NAME_SIZE);
    if (!type)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "layer %zu ('%s'): its kind is unknown: another version of Lockstep may "
                       "know it",
                       list->count, name->valuestring);
    ls_layer layer = {.kind = type->kind};
    ls_status status = LS_OK;
    for (const cJSON *item = object->child; !status && item; item = item->next)
        status = read_item(list, object, item, &layer);
    if (!status) (void)ls_layer_list_add(list, layer, "%s", name->valuestring);
    return status;
}

static ls_status read_list(const cJSON *items, ls_layer **layers, size_t *count) {
    struct ls_layer_list list;
    if (!cJSON_IsArray(items) || !items->child)
        return ls_fail(LS_INVALID_ARGUMENT, "it does not say the layers of its model");
    ls_status status = ls_layer_list_new((size_t)cJSON_GetArraySize(items), &list);
    if (status) return status;
    for (const cJSON *item = items->child; !status && item; item = item->next) status = read_layer(item, &list);
    if (status) {
        ls_free(list.layers);
        return status;
    }
    *layers = list.layers;
    *count = list.count;
    return LS_OK;
}

ls_status ls_layer_json_read(const char *object, ls_layer **layers, size_t *count) {
    LS_PLAIN;
    cJSON *tree = cJSON_Parse(object);
    ls_status status = cJSON_IsObject(tree)
                           ? read_list(cJSON_GetObjectItemCaseSensitive(tree, LS_LAYERS_MEMBER), layers, count)
                           : ls_fail(LS_DATA_LOSS, "what it says of its model is no JSON object");
    cJSON_Delete(tree);
    return status;
}
