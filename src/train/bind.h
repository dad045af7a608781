/* Binding of a model to one generation of the group: gradients, buckets, the optimizer's op and the reducer. */
#pragma once
#include "train/model.h"

/* Makes the parts of struct ls_model_bound for the present generation. Collective. Call ls_bind_detach before the group
 * is freed. */
ls_status ls_bind_attach(ls_model *model);
void ls_bind_detach(ls_model *model);
