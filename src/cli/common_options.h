/* Options that several commands have. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"

extern const struct ls_option ls_dataset_option[];   /* of a const char * */
extern const struct ls_option ls_data_options[];     /* of ls_dataset_options */
extern const struct ls_option ls_batch_option[];     /* likewise */
extern const char *const ls_token_formats[];         /* words of ls_tokens, from LS_TOKENS_BYTES on */
extern const struct ls_option ls_devices_option[];   /* of a const char * */
extern const struct ls_option ls_transport_option[]; /* likewise */

/* With a validation_split the test split is the validation part of the training split. */
void ls_take_part(ls_dataset_options *options);
/* Checks, before the workers meet, that there is such a dataset; false after the error has been printed. */
bool ls_check_dataset(const struct ls_command_line *line, const char *dataset);
/* The same of a file or folder of weights, NULL for none, on the chief, who alone reads it. */
bool ls_check_weights(const struct ls_command_line *line, const char *weights);

/* Returns true if lockstep check --json has that text of this environment: "\"task_type\": \"ps\"". */
bool ls_check_says(const char *text);

/* The stages that lockstep train puts behind its data. */

#define LS_AUGMENT_MAX 16

/* The requested augmentations: lists that end with a zero row. */
struct ls_augment {
    ls_map train[LS_AUGMENT_MAX + 2], test[2];
    int count; /* of train, the range apart */
};
extern const struct ls_option ls_augment_option[], ls_symmetric_option[]; /* of it */
