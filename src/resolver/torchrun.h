/* The reader of torchrun's variables. */
#pragma once
#include "resolver/launcher.h"

/* RANK and WORLD_SIZE; the pods of a PyTorchJob that no torchrun has started are pytorchjob.h's. */
ls_status ls_torchrun_read(struct ls_launcher *launch);
