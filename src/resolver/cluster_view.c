/* The rank order and the identity rules are multi_worker_util's (is_chief, worker_count, id_in_cluster). */
#include "resolver/cluster_view.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "base/text.h"
#include "resolver/tf_config.h"

static const char *const names[LS_TASK_TYPES] = {
    [LS_TASK_NONE] = "", [LS_TASK_CHIEF] = "chief",         [LS_TASK_WORKER] = "worker",
    [LS_TASK_PS] = "ps", [LS_TASK_EVALUATOR] = "evaluator",
};

const char *ls_cluster_view_type_name(enum ls_task_type type) {
    return (size_t)type < LS_TASK_TYPES ? names[type] : "";
}

/* ---- tasks ---- */

int ls_cluster_view_count(const struct ls_cluster_view *spec, enum ls_task_type type) {
    int count = 0;
    for (int i = 0; i < spec->task_count; i++) count += spec->tasks[i].type == type;
    return count;
}

const struct ls_task *ls_cluster_view_task(const struct ls_cluster_view *spec, enum ls_task_type type, int index) {
    for (int i = 0; i < spec->task_count; i++)
        if (spec->tasks[i].type == type && spec->tasks[i].index == index) return &spec->tasks[i];
    return NULL;
}

/* Ranks count the chief, if there is one, then the workers by index (multi_worker_util.id_in_cluster), and after those
 * who train the parameter servers. The evaluator has none. The tasks stand in that order. */
const struct ls_task *ls_cluster_view_member(const struct ls_cluster_view *spec, int rank) {
    if (rank < 0 || rank >= spec->task_count) return NULL;
    const struct ls_task *task = &spec->tasks[rank];
    int chiefs = spec->tasks[0].type == LS_TASK_CHIEF;
    if (task->type == LS_TASK_CHIEF) return task;
    if (task->type == LS_TASK_PS) return spec->num_workers && rank >= spec->num_workers ? task : NULL;
    return task->type == LS_TASK_WORKER && task->index == rank - chiefs ? task : NULL;
}

int ls_cluster_view_rank(const struct ls_cluster_view *spec) {
    int rank = spec->num_workers;
    if (spec->type == LS_TASK_EVALUATOR || !spec->cluster_mode) return -1;
    if (spec->type != LS_TASK_PS) return spec->id_in_cluster;
    while (rank < spec->task_count && spec->tasks[rank].index != spec->index) rank++;
    return rank;
}

/* ---- identity ---- */

void ls_cluster_view_identify_alone(struct ls_cluster_view *spec) {
    spec->is_chief = true;
    spec->num_workers = 1;
    spec->id_in_cluster = 0;
}

/* Without a chief worker 0 has its duties (multi_worker_util.is_chief). */
static void identify(struct ls_cluster_view *spec) {
    int chiefs = ls_cluster_view_count(spec, LS_TASK_CHIEF);
    if (spec->type == LS_TASK_EVALUATOR) {
        ls_cluster_view_identify_alone(spec); /* a cluster of its own */
        return;
    }
    spec->num_workers = chiefs + ls_cluster_view_count(spec, LS_TASK_WORKER);
    spec->num_servers = ls_cluster_view_count(spec, LS_TASK_PS);
    spec->id_in_cluster = spec->type == LS_TASK_PS ? -1 : spec->type == LS_TASK_CHIEF ? 0 : chiefs + spec->index;
    spec->is_chief = spec->id_in_cluster == 0;
}

static ls_status print_tasks(FILE *stream, const struct ls_cluster_view *spec, enum ls_task_type type) {
    for (int i = 0; i < spec->task_count; i++) {
        const struct ls_task *task = &spec->tasks[i];
        if (task->type != type) continue;
        LS_CLEANUP(ls_free_pointer) char *address = ls_tf_config_address_canonical(task->host, task->port);
        if (!address) return ls_fail_memory("an address", strlen(task->host));
        (void)fprintf(stream, "cluster.%s[%d]=%s\n", ls_cluster_view_type_name(type), task->index, address);
    }
    return LS_OK;
}

/* The evaluator is left out: some emitters tell it to nobody but the evaluator itself. The counts come first, so that
 * a task too many is told as such and not as a difference of addresses. */
static ls_status print_canonical(FILE *stream, const struct ls_cluster_view *spec) {
    static const enum ls_task_type types[] = {LS_TASK_CHIEF, LS_TASK_WORKER, LS_TASK_PS};
    for (size_t i = 0; i < 3; i++)
        (void)fprintf(stream, "cluster.%s=%d tasks\n", ls_cluster_view_type_name(types[i]),
                      ls_cluster_view_count(spec, types[i]));
    ls_status status = LS_OK;
    for (size_t i = 0; i < 3 && !status; i++) status = print_tasks(stream, spec, types[i]);
    return status;
}

static ls_status make_canonical(struct ls_cluster_view *spec) {
    struct ls_text made;
    FILE *out = ls_text_open(&made, 0);
    ls_status status = out ? print_canonical(out, spec) : LS_OK;
    return ls_text_close(&made, status, "the cluster's text", &spec->canonical);
}

static void name_tasks(struct ls_cluster_view *spec) {
    for (int i = 0; i < spec->task_count; i++) {
        struct ls_task *task = &spec->tasks[i];
        (void)snprintf(task->name, sizeof(task->name), "%s:%d", ls_cluster_view_type_name(task->type), task->index);
    }
}

ls_status ls_cluster_view_make_workers(struct ls_cluster_view *spec, int count) {
    spec->tasks = ls_alloc_array((size_t)count, sizeof(*spec->tasks));
    if (!spec->tasks) return ls_fail_memory("a cluster's tasks", (size_t)count * sizeof(*spec->tasks));
    spec->task_count = count;
    for (int i = 0; i < count; i++) spec->tasks[i] = (struct ls_task){.type = LS_TASK_WORKER, .index = i};
    return LS_OK;
}

ls_status ls_cluster_view_place(struct ls_task *task, const char *host, int port) {
    char address[400];
    (void)snprintf(address, sizeof(address), strchr(host, ':') ? "[%.380s]:%d" : "%.380s:%d", host, port);
    char *copy = ls_strdup(host), *text = ls_strdup(address);
    ls_free(task->host);
    ls_free(task->address);
    task->host = copy;
    task->address = text;
    task->port = port;
    return copy && text ? LS_OK : ls_fail_memory("an address", strlen(address));
}

ls_status ls_cluster_view_complete(struct ls_cluster_view *spec) {
    ls_free(ls_steal(spec->canonical));
    spec->cluster_mode = true;
    name_tasks(spec);
    identify(spec);
    return make_canonical(spec);
}

ls_status ls_cluster_view_of_address(const char *address, struct ls_cluster_view **spec) {
    LS_NEW(struct ls_cluster_view, made, "a cluster");
    ls_status status = ls_cluster_view_make_workers(made, 1);
    made->type = LS_TASK_WORKER;
    if (!status && !(made->tasks->address = ls_strdup(address))) status = ls_fail_memory("an address", strlen(address));
    if (!status) status = ls_tf_config_address_parse("address", address, &made->tasks->host, &made->tasks->port);
    if (!status) status = ls_cluster_view_complete(made);
    return LS_HAND_OVER(status, spec, made, ls_cluster_view_free(made));
}

void ls_cluster_view_free(struct ls_cluster_view *spec) {
    if (!spec) return;
    for (int i = 0; i < spec->task_count; i++) {
        ls_free(spec->tasks[i].address);
        ls_free(spec->tasks[i].host);
    }
    for (int i = 0; i < spec->warning_count; i++) ls_free(spec->warnings[i]);
    ls_free(spec->tasks);
    ls_free(spec->warnings);
    ls_free(spec->canonical);
    ls_free(spec->meet_host);
    ls_free(spec);
}
