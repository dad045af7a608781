/* The moments of a generation that begins: workers tell what they have, and take what they lack. */
#pragma once
#include "train/shards.h"

/* The model's shards get what this worker is to have. Collective. UNAVAILABLE: nobody has some moments any more. */
ls_status ls_succession_run(ls_model *model);
