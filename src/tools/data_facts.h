/* The facts of a data source, for lockstep data. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

#include "data/dataset.h"

/* Numbers that were looked at. */
struct ls_data_numbers {
    int64_t count, odd; /* odd: NaN and infinite ones, which the rest leaves out */
    double lowest, highest, mean, deviation;
    bool whole; /* all are whole */
};
/* Of one split. The first one's columns are those of all. */
struct ls_data_facts {
    const char *role;               /* "train", "validation", "test" */
    ls_dataset *data;               /* owns */
    int64_t sampled;                /* examples that were looked at */
    struct ls_data_numbers values;  /* of their features */
    struct ls_data_numbers targets; /* where these are numbers; otherwise count is 0 */
    struct ls_transform table;      /* owns: columns without rows; none where it is no table */
    int64_t *counts;                /* owns: [classes] examples of all; NULL without classes */
};

/* Writes a line for each thing that a training would stumble over. The first one of facts is the training's. */
void ls_data_hints(const struct ls_data_facts *facts, int count, int64_t batch, FILE *out);
/* Those of arrays as somebody has saved them, of one split. */
void ls_data_hints_of_arrays(const struct ls_data_facts *facts, FILE *out);

/* The printer of facts of a data source. hints are lines. */

void ls_data_print(const char *name, const struct ls_data_facts *facts, int count, const char *hints, FILE *out);
void ls_data_print_json(const char *name, const struct ls_data_facts *facts, int count, const char *hints, FILE *out);
