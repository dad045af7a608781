/* Whether TF_CONFIG is JSON at all, and if not: where and why, in words. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_JSON_DEPTH 1000 /* of nested lists and objects; no deeper than cJSON's own limit */

/* RFC 8259, and no number of more than 62 characters, no \u0000. INVALID_ARGUMENT with line, column and a hint. */
ls_status ls_tf_config_syntax_check(const char *text);
