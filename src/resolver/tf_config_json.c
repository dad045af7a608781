/* The place of the tree, and a short text of a value. */
#include "resolver/tf_config_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "base/status.h"
#include "resolver/tf_config.h"

cJSON *ls_tf_config_json_parse(const char *text, size_t size) {
    LS_PLAIN;
    return cJSON_ParseWithLengthOpts(text, size, NULL, false);
}

ls_status ls_tf_config_json_read(const char *text, cJSON **tree) {
    ls_status status = ls_tf_config_syntax_check(text);
    if (status) return status;
    *tree = ls_tf_config_json_parse(text, strlen(text));
    return *tree ? LS_OK : ls_fail_memory("a tree of JSON", strlen(text));
}

int ls_tf_config_json_index(const cJSON *json) {
    size_t digits = strspn(json->string, "0123456789");
    return !digits || json->string[digits] || digits > 9 ? -1 : (int)strtol(json->string, NULL, 10);
}

struct ls_quoted ls_tf_config_json_quote_text(const char *text) {
    struct ls_quoted quoted = {"'"};
    size_t used = 1, room = sizeof(quoted.text) - sizeof("...'") - sizeof("\\x00");
    for (; *text && used <= room; text++) {
        bool plain = *text >= ' ' && *text <= '~';
        used += (size_t)snprintf(quoted.text + used, sizeof(quoted.text) - used, plain ? "%c" : "\\x%02x",
                                 (unsigned char)*text);
    }
    (void)snprintf(quoted.text + used, sizeof(quoted.text) - used, *text ? "...'" : "'");
    return quoted;
}

struct ls_quoted ls_tf_config_json_quote(const cJSON *json) {
    struct ls_quoted quoted = {"null"};
    const char *text = cJSON_IsTrue(json)     ? "true"
                       : cJSON_IsFalse(json)  ? "false"
                       : cJSON_IsArray(json)  ? json->child ? "a list" : "an empty list"
                       : cJSON_IsObject(json) ? json->child ? "an object" : "an empty object"
                                              : "null";
    if (cJSON_IsString(json)) return ls_tf_config_json_quote_text(json->valuestring);
    if (cJSON_IsNumber(json))
        (void)ls_plain_text(quoted.text, sizeof(quoted.text), "%.15g", json->valuedouble);
    else
        (void)snprintf(quoted.text, sizeof(quoted.text), "%s", text);
    return quoted;
}
