/* CLUSTER_SPEC of Vertex AI has the form of TF_CONFIG and other names of the roles: workerpool0 is the chief,
 * workerpool1 are the workers, workerpool2 the parameter servers, workerpool3 the evaluator. */
#include "resolver/readers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "resolver/tf_config.h"

static const struct {
    const char *pool, *role;
} roles[] = {
    {"\"workerpool0\"", "\"chief\""},
    {"\"workerpool1\"", "\"worker\""},
    {"\"workerpool2\"", "\"ps\""},
    {"\"workerpool3\"", "\"evaluator\""},
};

/* The text with the roles' names as TF_CONFIG has them. No role is longer than its pool. NULL: no memory. */
static char *translate_roles(const char *text) {
    char *made = ls_alloc(strlen(text) + 1), *to = made;
    while (made && *text) {
        size_t taken = 1, i = 0;
        *to = *text;
        for (; i < sizeof(roles) / sizeof(roles[0]); i++)
            if (!strncmp(text, roles[i].pool, strlen(roles[i].pool))) break;
        if (i < sizeof(roles) / sizeof(roles[0])) {
            taken = strlen(roles[i].pool);
            to = stpcpy(to, roles[i].role);
        } else {
            to++;
        }
        text += taken;
    }
    return made;
}

ls_status ls_vertex_read(struct ls_cluster_view **spec) {
    const char *text = getenv("CLUSTER_SPEC");
    if (!text || !*text) return ls_tf_config_parse(NULL, spec);
    LS_CLEANUP(ls_free_pointer) char *translated = translate_roles(text);
    if (!translated) return ls_fail_memory("CLUSTER_SPEC", strlen(text));
    ls_status status = ls_tf_config_parse(translated, spec);
    return status ? ls_fail_context(status, "CLUSTER_SPEC, read as TF_CONFIG with workerpool0 as chief and so on")
                  : LS_OK;
}
