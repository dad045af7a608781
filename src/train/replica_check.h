/* The promise of equal copies, checked. */
#pragma once
#include "train/model.h"

/* DATA_LOSS naming the replicas when copies of the variables differ anywhere. */
ls_status ls_replica_check(ls_model *model);
