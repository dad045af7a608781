/* A JSON text as a tree to look at. cJSON lives behind this file; nobody else in the project includes it. */
#pragma once
#include <lockstep/lockstep.h>

/* A value; the tree belongs to whoever parsed it, everything below is borrowed from it. */
struct ls_tf_config_json;
enum ls_json_kind {
    LS_JSON_NULL = 0,
    LS_JSON_BOOL,
    LS_JSON_NUMBER,
    LS_JSON_STRING,
    LS_JSON_ARRAY,
    LS_JSON_OBJECT,
};

/* text must have passed ls_tf_config_syntax_check: a NULL from here means that memory is short. */
struct ls_tf_config_json *ls_tf_config_json_parse(const char *text, size_t size);
void ls_tf_config_json_free(struct ls_tf_config_json *json);

enum ls_json_kind ls_tf_config_json_kind(const struct ls_tf_config_json *json);
/* The first element of an array or object, and the one after an element; NULL at the end. */
const struct ls_tf_config_json *ls_tf_config_json_first(const struct ls_tf_config_json *json);
const struct ls_tf_config_json *ls_tf_config_json_next(const struct ls_tf_config_json *json);
const char *ls_tf_config_json_key(const struct ls_tf_config_json *json);    /* of an element of an object, else "" */
const char *ls_tf_config_json_string(const struct ls_tf_config_json *json); /* of a string, else "" */
double ls_tf_config_json_number(const struct ls_tf_config_json *json);      /* of a number, else NaN */

/* A short text for messages: printable ASCII only, cut where it is long. Use: ls_fail(..., "%s",
 * ls_tf_config_json_quote_text(x).text). */
struct ls_quoted {
    char text[96];
};
struct ls_quoted ls_tf_config_json_quote_text(const char *text);
/* The value likewise: 'text', 1.5, true, null, a list, an object. */
struct ls_quoted ls_tf_config_json_quote(const struct ls_tf_config_json *json);
