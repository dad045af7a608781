/* A list of layers with their names. */
#include "model/layer_list.h"

#include "base/memory.h"
#include "base/plain.h"
#include "base/status.h"

ls_status ls_layer_list_new(size_t room, struct ls_layer_list *list) {
    size_t size = room * (sizeof(ls_layer) + LS_LAYER_NAME_SIZE);
    *list = (struct ls_layer_list){.layers = ls_alloc(size), .room = room};
    if (!list->layers) return ls_fail_memory("layers", size);
    list->names = (void *)(list->layers + room);
    return LS_OK;
}

const char *ls_layer_list_add(struct ls_layer_list *list, ls_layer layer, const char *format, ...) {
    char *name = list->names[list->count];
    (void)LS_PLAIN_ARGUMENTS(name, LS_LAYER_NAME_SIZE, format);
    layer.name = name;
    list->layers[list->count++] = layer;
    return name;
}

const char *ls_layer_list_last(const struct ls_layer_list *list) {
    return list->layers[list->count - 1].name;
}
