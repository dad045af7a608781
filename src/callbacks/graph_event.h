/* A model's layers as a graph for TensorBoard. */
#pragma once
#include "observe/event_file.h"
#include "train/model.h"

/* Of a model that is built: a node for the input and for each layer, their names behind prefix. */
ls_status ls_graph_event_write(struct ls_event_file *file, const ls_model *model, const char *prefix);
