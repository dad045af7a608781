/* The roles of tf.distribute (multi_worker_util), and the names that other tools give them. */
#include "resolver/tf_config_private.h"

#include <stdio.h>
#include <string.h>

#include "base/plain.h"

static const struct {
    const char *name, *hint;
} others[] = {
    {"master", "call it chief (master is the TF1 Estimator's name, which tf.distribute refuses too)"},
    {"chiefs", "call it chief"},
    {"chief_host", "call it chief and give a list"},
    {"chief_hosts", "call it chief"},
    {"master_hosts", "call it chief"},
    {"workers", "call it worker"},
    {"worker_host", "call it worker and give a list"},
    {"worker_hosts", "call it worker"},
    {"ps_host", "call it ps and give a list"},
    {"ps_hosts", "call it ps"},
    {"parameter_server", "call it ps"},
    {"parameter_servers", "call it ps"},
    {"eval", "call it evaluator"},
    {"evaluators", "call it evaluator"},
    {"evaluator_hosts", "call it evaluator"},
    {"workerpool0", "this is Vertex AI's CLUSTER_SPEC; use its TF_CONFIG, where workerpool0 is chief"},
    {"workerpool1", "this is Vertex AI's CLUSTER_SPEC; use its TF_CONFIG, where workerpool1 is worker"},
    {"workerpool2", "this is Vertex AI's CLUSTER_SPEC; use its TF_CONFIG, where workerpool2 is ps"},
    {"workerpool3", "this is Vertex AI's CLUSTER_SPEC; use its TF_CONFIG, which leaves the evaluator out"},
    {"rank", "roles are chief, worker, ps and evaluator; the rank follows from task.type and task.index"},
};

enum ls_task_type ls_tf_config_roles_parse(const char *name) {
    for (int type = LS_TASK_CHIEF; type < LS_TASK_TYPES; type++)
        if (!strcmp(name, ls_cluster_view_type_name((enum ls_task_type)type))) return (enum ls_task_type)type;
    return LS_TASK_NONE;
}

const char *ls_tf_config_roles_hint(const char *name) {
    for (int type = LS_TASK_CHIEF; type < LS_TASK_TYPES; type++)
        if (ls_plain_same(name, ls_cluster_view_type_name((enum ls_task_type)type))) return "write it in lower case";
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (ls_plain_same(name, others[i].name)) return others[i].hint;
    return "use one of chief, worker, ps, evaluator";
}

struct ls_tf_key ls_tf_config_roles_key(const struct ls_tf_reader *reader, enum ls_task_type type, int index) {
    struct ls_tf_key key;
    (void)snprintf(key.text, sizeof(key.text), reader->is_map[type] ? "%s.%s[\"%d\"]" : "%s.%s[%d]", reader->root,
                   ls_cluster_view_type_name(type), index);
    return key;
}
