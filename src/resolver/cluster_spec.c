/* The public list of tasks (tf.train.ClusterSpec): any job name, indices with holes. tasks is sorted by job and index,
 * so equality, JSON and the search of a job need no other structure. Errors that TensorFlow leaves to the first
 * connection, such as an address without a port, come from add. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/grow.h"
#include "base/need.h"
#include "base/new.h"
#include "base/text.h"
#include "resolver/tf_config.h"
#include "resolver/tf_config_json.h"

#define INDEX_LIMIT 999999999

struct spec_task {
    char *job, *address; /* as written */
    char *canonical;     /* one spelling for one address */
    int index;
};
struct ls_cluster_spec {
    struct spec_task *tasks; /* [count], of room */
    int count, room;
};

/* The tasks of one job: [begin, end). */
struct job_range {
    int begin, end;
};

static struct job_range find_job(const ls_cluster_spec *spec, const char *job) {
    struct job_range range = {0, 0};
    while (range.begin < spec->count && strcmp(spec->tasks[range.begin].job, job) < 0) range.begin++;
    range.end = range.begin;
    while (range.end < spec->count && !strcmp(spec->tasks[range.end].job, job)) range.end++;
    return range;
}

/* ---- add ---- */

static void free_task(struct spec_task *task) {
    ls_free(task->job);
    ls_free(task->address);
    ls_free(task->canonical);
}

static ls_status refuse_equal_tasks(const ls_cluster_spec *spec, const struct spec_task *task) {
    for (int i = 0; i < spec->count; i++) {
        const struct spec_task *other = &spec->tasks[i];
        if (other->index == task->index && !strcmp(other->job, task->job))
            return ls_fail(LS_INVALID_ARGUMENT, "cluster: job %s has the index %d already, at %s; keep one",
                           ls_tf_config_json_quote_text(task->job).text, task->index,
                           ls_tf_config_json_quote_text(other->address).text);
        if (!strcmp(other->canonical, task->canonical))
            return ls_fail(LS_INVALID_ARGUMENT,
                           "cluster: job %s, index %d is %s, which is the address of job %s, index %d as well; give "
                           "each task its own host or port",
                           ls_tf_config_json_quote_text(task->job).text, task->index,
                           ls_tf_config_json_quote_text(task->address).text,
                           ls_tf_config_json_quote_text(other->job).text, other->index);
    }
    return LS_OK;
}

static ls_status make_task(const char *job, int index, const char *address, struct spec_task *task) {
    char key[128];
    char *host = NULL;
    int port = 0;
    (void)snprintf(key, sizeof(key), "cluster: job %s, index %d", ls_tf_config_json_quote_text(job).text, index);
    ls_status status = ls_tf_config_address_parse(key, address, &host, &port);
    if (status) return status;
    *task = (struct spec_task){ls_strdup(job), ls_strdup(address), ls_tf_config_address_canonical(host, port), index};
    ls_free(host);
    if (task->job && task->address && task->canonical) return LS_OK;
    free_task(task);
    return ls_fail_memory("a task", strlen(job) + strlen(address));
}

static void insert_task(ls_cluster_spec *spec, const struct spec_task *task) {
    struct job_range range = find_job(spec, task->job);
    int at = range.begin;
    while (at < range.end && spec->tasks[at].index < task->index) at++;
    memmove(&spec->tasks[at + 1], &spec->tasks[at], (size_t)(spec->count - at) * sizeof(*task));
    spec->tasks[at] = *task;
    spec->count++;
}

ls_status ls_cluster_spec_add(ls_cluster_spec *spec, const char *job, int index, const char *address) {
    struct spec_task task;
    LS_NEED(spec, job, address);
    if (!*job) return ls_fail(LS_INVALID_ARGUMENT, "cluster: a job has no name; write one such as worker");
    if (index < 0 || index > INDEX_LIMIT)
        return ls_fail(LS_INVALID_ARGUMENT, "cluster: job %s: the index %d is not in 0 .. %d",
                       ls_tf_config_json_quote_text(job).text, index, INDEX_LIMIT);
    ls_status status = make_task(job, index, address, &task);
    if (status) return status;
    status = refuse_equal_tasks(spec, &task);
    if (!status) status = LS_GROW(spec->tasks, spec->room, spec->count + 1, 8, "tasks");
    if (status)
        free_task(&task);
    else
        insert_task(spec, &task);
    return status;
}

/* ---- from JSON ---- */

static ls_status take_job(ls_cluster_spec *spec, const cJSON *tasks) {
    const char *job = tasks->string;
    bool named = cJSON_IsObject(tasks);
    struct ls_quoted quoted = ls_tf_config_json_quote_text(job);
    int place = 0;
    if (!named && !cJSON_IsArray(tasks))
        return ls_fail(LS_INVALID_ARGUMENT, "cluster: job %s is %s, not a list; write [\"host:port\", ...]",
                       quoted.text, ls_tf_config_json_quote(tasks).text);
    struct job_range range = find_job(spec, job);
    if (range.begin < range.end)
        return ls_fail(LS_INVALID_ARGUMENT, "cluster: the job %s stands twice; keep one", quoted.text);
    for (const cJSON *value = tasks->child; value; value = value->next) {
        int index = named ? ls_tf_config_json_index(value) : place++;
        if (index < 0)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "cluster: job %s has the key %s, which is no task index; use \"0\", \"1\", ...", quoted.text,
                           ls_tf_config_json_quote_text(value->string).text);
        if (!cJSON_IsString(value))
            return ls_fail(LS_INVALID_ARGUMENT, "cluster: job %s, index %d is %s, not an address; write \"host:port\"",
                           quoted.text, index, ls_tf_config_json_quote(value).text);
        ls_status status = ls_cluster_spec_add(spec, job, index, value->valuestring);
        if (status) return status;
    }
    return LS_OK;
}

/* The member "cluster" of a TF_CONFIG, which is an object of jobs; a job of that name would be a list of texts. */
static const cJSON *find_jobs(const cJSON *document) {
    for (const cJSON *item = document->child; item; item = item->next) {
        const cJSON *first = item->child;
        bool jobs = cJSON_IsObject(item) && (!first || !cJSON_IsString(first));
        if (jobs && !strcmp(item->string, "cluster")) return item;
    }
    return document;
}

static ls_status take_document(ls_cluster_spec *spec, const cJSON *document) {
    if (!cJSON_IsObject(document))
        return ls_fail(LS_INVALID_ARGUMENT, "cluster: %s is no object; write {\"worker\": [\"host:port\", ...]}",
                       ls_tf_config_json_quote(document).text);
    for (const cJSON *job = find_jobs(document)->child; job; job = job->next) {
        ls_status status = take_job(spec, job);
        if (status) return status;
    }
    return LS_OK;
}

static ls_status take_json(ls_cluster_spec *spec, const char *text) {
    LS_CLEANUP(ls_tf_config_json_free) cJSON *document = NULL;
    ls_status status = ls_tf_config_json_read(text, &document);
    return status ? ls_fail_context(status, "cluster") : take_document(spec, document);
}

ls_status ls_cluster_spec_new(const char *cluster, ls_cluster_spec **spec) {
    LS_NEED(spec);
    LS_NEW(ls_cluster_spec, made, "a cluster");
    ls_status status = cluster ? take_json(made, cluster) : LS_OK;
    return LS_HAND_OVER(status, spec, made, ls_cluster_spec_free(made));
}

void ls_cluster_spec_free(ls_cluster_spec *spec) {
    if (!spec) return;
    for (int i = 0; i < spec->count; i++) free_task(&spec->tasks[i]);
    ls_free(spec->tasks);
    ls_free(spec);
}

/* ---- questions ---- */

static bool begins_job(const ls_cluster_spec *spec, int task) {
    return !task || strcmp(spec->tasks[task - 1].job, spec->tasks[task].job) != 0;
}

int ls_cluster_spec_num_jobs(const ls_cluster_spec *spec) {
    int jobs = 0;
    LS_NEED_OR(0, spec);
    for (int i = 0; i < spec->count; i++) jobs += begins_job(spec, i);
    return jobs;
}

const char *ls_cluster_spec_job(const ls_cluster_spec *spec, int number) {
    LS_NEED_OR(NULL, spec);
    for (int i = 0; i < spec->count && number >= 0; i++)
        if (begins_job(spec, i) && !number--) return spec->tasks[i].job;
    return NULL;
}

static ls_status need_job(const ls_cluster_spec *spec, const char *job, struct job_range *range) {
    char names[256] = "none";
    *range = find_job(spec, job);
    if (range->begin < range->end) return LS_OK;
    for (int i = 0, used = 0; i < spec->count && used < (int)sizeof(names); i++)
        if (begins_job(spec, i))
            used += snprintf(names + used, sizeof(names) - (size_t)used, "%s%s", i ? ", " : "",
                             ls_tf_config_json_quote_text(spec->tasks[i].job).text);
    return ls_fail(LS_NOT_FOUND, "cluster: there is no job %s; its jobs are %s", ls_tf_config_json_quote_text(job).text,
                   names);
}

ls_status ls_cluster_spec_num_tasks(const ls_cluster_spec *spec, const char *job, int *count) {
    struct job_range range;
    LS_NEED(spec, job, count);
    ls_status status = need_job(spec, job, &range);
    if (!status) *count = range.end - range.begin;
    return status;
}

ls_status ls_cluster_spec_task_indices(const ls_cluster_spec *spec, const char *job, int count, int *indices) {
    struct job_range range;
    LS_NEED(spec, job, indices);
    ls_status status = need_job(spec, job, &range);
    for (int i = 0; !status && i < count && range.begin + i < range.end; i++)
        indices[i] = spec->tasks[range.begin + i].index;
    return status;
}

ls_status ls_cluster_spec_task_address(const ls_cluster_spec *spec, const char *job, int index, const char **address) {
    struct job_range range;
    LS_NEED(spec, job, address);
    ls_status status = need_job(spec, job, &range);
    if (status) return status;
    for (int i = range.begin; i < range.end; i++) {
        if (spec->tasks[i].index != index) continue;
        *address = spec->tasks[i].address;
        return LS_OK;
    }
    return ls_fail(LS_NOT_FOUND, "cluster: job %s has no task of index %d; its %d tasks have the indices %d .. %d",
                   ls_tf_config_json_quote_text(job).text, index, range.end - range.begin,
                   spec->tasks[range.begin].index, spec->tasks[range.end - 1].index);
}

bool ls_cluster_spec_equal(const ls_cluster_spec *spec, const ls_cluster_spec *other) {
    LS_NEED_OR(false, spec, other);
    if (spec->count != other->count) return false;
    for (int i = 0; i < spec->count; i++) {
        const struct spec_task *a = &spec->tasks[i], *b = &other->tasks[i];
        if (a->index != b->index || strcmp(a->job, b->job) != 0 || strcmp(a->address, b->address) != 0) return false;
    }
    return true;
}

/* ---- to JSON ---- */

static void print_job(FILE *stream, const struct spec_task *tasks, int count) {
    bool dense = tasks[count - 1].index == count - 1; /* indices rise and differ */
    ls_json_put(stream, tasks->job);
    (void)fputs(dense ? ": [" : ": {", stream);
    for (int i = 0; i < count; i++) {
        if (i) (void)fputs(", ", stream);
        if (!dense) (void)fprintf(stream, "\"%d\": ", tasks[i].index);
        ls_json_put(stream, tasks[i].address);
    }
    (void)fputs(dense ? "]" : "}", stream);
}

static void print_spec(FILE *out, const ls_cluster_spec *spec) {
    (void)fputc('{', out);
    for (int begin = 0, end; begin < spec->count; begin = end) {
        end = begin + 1;
        while (end < spec->count && !begins_job(spec, end)) end++;
        if (begin) (void)fputs(", ", out);
        print_job(out, &spec->tasks[begin], end - begin);
    }
    (void)fputc('}', out);
}

ls_status ls_cluster_spec_json(const ls_cluster_spec *spec, char **json) {
    LS_NEED(spec, json);
    return LS_TEXT(out, print_spec(out, spec), "a cluster's text", json);
}
