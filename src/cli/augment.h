/* The stages that lockstep train puts behind its data. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"

#define LS_AUGMENT_MAX 16

/* The requested augmentations: lists that end with a zero row. */
struct ls_augment {
    ls_map train[LS_AUGMENT_MAX + 2], test[2];
    int count; /* of train, the range apart */
};
extern const struct ls_option ls_augment_option[], ls_symmetric_option[]; /* of it */
