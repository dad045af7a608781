/* The judge of a data source. */
#pragma once
#include <stdio.h>

#include "tools/data_facts.h"

/* Writes a line for each thing that a training would stumble over. The first one of facts is the training's. */
void ls_data_hints(const struct ls_data_facts *facts, int count, int64_t batch, FILE *out);
