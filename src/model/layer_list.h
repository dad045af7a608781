/* A list of layers that a function makes, and the names in it: one block of memory, as ls_application gives it. */
#pragma once
#include "model/layer.h"

struct ls_layer_list {
    ls_layer *layers;
    char (*names)[LS_LAYER_NAME_SIZE];
    size_t count, room;
};
ls_status ls_layer_list_new(size_t room, struct ls_layer_list *list);
/* Appends a layer under a name, which is also returned, and lasts as long as the list. There must be room. */
const char *ls_layer_list_add(struct ls_layer_list *list, ls_layer layer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The name of the last one. */
const char *ls_layer_list_last(const struct ls_layer_list *list);
