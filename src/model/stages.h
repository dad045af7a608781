/* The stages of a pipeline: ranges of nodes, cut where one value goes from one to the next. */
#pragma once
#include "model/network.h"

/* Fills starts [stages + 1]: stage s has the nodes from starts[s] to before starts[s + 1]. Each stage has a variable
 * that is trained. The dearest stage is as cheap as can be, by the arithmetic and the bytes of its ops. A function of
 * the network, the objective and the rows alone. config: of a training of the whole network. UNIMPLEMENTED names the
 * layer that cannot be in a pipeline; INVALID_ARGUMENT: there are not so many places to cut. */
ls_status ls_stages_cut(const struct ls_plan_config *config, int stages, size_t *starts);
