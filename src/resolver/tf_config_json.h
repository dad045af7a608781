/* TF_CONFIG's JSON as cJSON's tree, and how its values are shown in a message. */
#pragma once
#include <cjson/cJSON.h>
#include <lockstep/lockstep.h>
#include <stddef.h>

#include "base/memory.h"

/* text must have passed ls_tf_config_syntax_check: a NULL from here means that memory is short. Of what it gives every
 * element of an object has its key. */
cJSON *ls_tf_config_json_parse(const char *text, size_t size);
/* Both: INVALID_ARGUMENT as of ls_tf_config_syntax_check. */
ls_status ls_tf_config_json_read(const char *text, cJSON **tree);
LS_CLEANER(ls_tf_config_json_free, cJSON *, cJSON_Delete);

/* The key of an object's element as a task index; -1 if it is none. */
int ls_tf_config_json_index(const cJSON *json);

/* A short text for messages: printable ASCII only, cut where it is long. Use: ls_fail(..., "%s",
 * ls_tf_config_json_quote_text(x).text). */
struct ls_quoted {
    char text[96];
};
struct ls_quoted ls_tf_config_json_quote_text(const char *text);
/* The value likewise: 'text', 1.5, true, null, a list, an object. */
struct ls_quoted ls_tf_config_json_quote(const cJSON *json);
