/* The printer of facts of a data source. hints are lines. */
#pragma once
#include <stdio.h>

#include "tools/data_facts.h"

void ls_data_print(const char *name, const struct ls_data_facts *facts, int count, const char *hints, FILE *out);
void ls_data_print_json(const char *name, const struct ls_data_facts *facts, int count, const char *hints, FILE *out);
