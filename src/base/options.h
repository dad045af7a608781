/* Option structs: `size` first, so that a program built against an older header still works. */
#pragma once
#include <lockstep/lockstep.h>

/* Copies options into a zeroed struct of known bytes; NULL options are all zero. INVALID_ARGUMENT names the struct when
 * its size field was not filled in or is larger than this library knows. */
ls_status ls_options_copy(const char *name, void *copy, size_t known, const void *options);

/* Names and checks of the values of the public enums. */

/* INVALID_ARGUMENT for a value that is no ls_reduce_op, ls_consistency, ls_compression, ls_sharding, ls_precision,
 * ls_recompute. */
ls_status ls_option_names_check_reduce_op(ls_reduce_op op);
const char *ls_option_names_reduce_op(ls_reduce_op op);
const char *ls_option_names_communication(ls_communication communication); /* "AUTO"; "unknown" for any other value */
ls_status ls_option_names_check_consistency(ls_consistency consistency);
const char *ls_option_names_consistency(ls_consistency consistency); /* "delayed" */
ls_status ls_option_names_check_compression(ls_compression compression);
const char *ls_option_names_compression(ls_compression compression); /* "bf16" */
ls_status ls_option_names_check_sharding(ls_sharding sharding);
const char *ls_option_names_sharding(ls_sharding sharding); /* "optimizer" */
ls_status ls_option_names_check_precision(ls_precision precision);
const char *ls_option_names_precision(ls_precision precision); /* Keras' where it has one: "mixed_bfloat16" */
ls_status ls_option_names_check_recompute(ls_recompute recompute);
const char *ls_option_names_recompute(ls_recompute recompute);    /* "blocks" */
ls_dtype ls_option_names_precision_dtype(ls_precision precision); /* of what layers give each other */
