/* A small authority and a certificate for each task; behind `lockstep certs`. Files are readable by their owner only,
 * and none is ever overwritten. */
#include <lockstep/tools.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/security/certificate.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/text.h"
#include "resolver/tf_config.h"
#include "resolver/cluster_view.h"

#define MAX_TASKS 10000 /* of a kind */
#define PATH_SIZE 4096

struct names {
    char (*list)[32]; /* [count]: "worker-1" */
    int count;
};

static ls_status add_task_names(struct names *names, const char *type, int first, int count) {
    size_t size = (size_t)(names->count + count) * sizeof(*names->list);
    char(*list)[32] = realloc(names->list, size);
    if (!list) return ls_fail_memory("the tasks", size);
    names->list = list;
    for (int i = 0; i < count; i++) (void)snprintf(list[names->count++], sizeof(*list), "%s-%d", type, first + i);
    return LS_OK;
}

/* "chief", "worker:4" */
static ls_status add_tasks(struct names *names, const char *text, size_t size) {
    char type[16] = "", *end = NULL;
    size_t length = strcspn(text, ":,");
    long count = 1;
    if (length > size) length = size;
    (void)snprintf(type, sizeof(type), "%.*s", (int)length, text);
    if (length < size) count = strtol(text + length + 1, &end, 10);
    bool known = strcmp(type, "chief") == 0 || strcmp(type, "worker") == 0 || strcmp(type, "ps") == 0;
    if (!known || (end && (end != text + size || end == text + length + 1)) || count < 1 || count > MAX_TASKS ||
        (type[0] == 'c' && count != 1))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "'%.*s' is no list of tasks such as 'chief,worker:3,ps:1' (1 to %d of a type)", (int)size, text,
                       MAX_TASKS);
    return add_task_names(names, type, 0, (int)count);
}

static ls_status read_certs_list(const char *text, struct names *names) {
    ls_status status = LS_OK;
    do {
        size_t size = strcspn(text, ",");
        status = add_tasks(names, text, size);
        text += size;
    } while (!status && *text++);
    return status;
}

static ls_status read_tf_config(const char *text, struct names *names) {
    struct ls_cluster_view *config;
    ls_status status = ls_tf_config_parse(text, &config);
    if (status) return status;
    if (!config->cluster_mode)
        status = ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG names no cluster: give the tasks with --tasks worker:4");
    for (int i = 0; i < config->task_count && !status; i++) {
        const struct ls_task *task = &config->tasks[i];
        if (task->type != LS_TASK_EVALUATOR)
            status = add_task_names(names, ls_cluster_view_type_name(task->type), task->index, 1);
    }
    ls_cluster_view_free(config);
    return status;
}

/* ---- files ---- */

static ls_status find_path(const char *folder, const char *name, const char *ending, char path[PATH_SIZE]) {
    if ((size_t)snprintf(path, PATH_SIZE, "%s/%s.%s", folder, name, ending) < PATH_SIZE) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "the folder's name is too long");
}

static ls_status check_absent(const char *folder, const char *name) {
    static const char *const endings[] = {"pem", "key"};
    char path[PATH_SIZE];
    struct stat found;
    for (size_t i = 0; i < 2; i++) {
        ls_status status = find_path(folder, name, endings[i], path);
        if (status) return status;
        if (lstat(path, &found) == 0)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "'%s' is there already, and nothing is overwritten: take another folder, or remove it",
                           path);
    }
    return LS_OK;
}

static ls_status write_file(const char *folder, const char *name, const char *ending, const char *text) {
    char path[PATH_SIZE];
    ls_status status = find_path(folder, name, ending, path);
    if (status) return status;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return ls_fail(LS_INVALID_ARGUMENT, "cannot make '%s': %s", path, strerror(errno));
    size_t size = strlen(text);
    bool written = write(fd, text, size) == (ssize_t)size;
    int error = errno;
    if (close(fd) != 0 || !written)
        return ls_fail(LS_UNKNOWN, "cannot write '%s': %s", path, written ? strerror(errno) : strerror(error));
    return LS_OK;
}

static ls_status write_pair(const char *folder, const char *name, const struct ls_certificate_pair *pair) {
    ls_status status = write_file(folder, name, "key", pair->key);
    return status ? status : write_file(folder, name, "pem", pair->certificate);
}

static ls_status prepare_folder(const char *folder, const struct names *names) {
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return ls_fail(LS_INVALID_ARGUMENT, "cannot make the folder '%s': %s", folder, strerror(errno));
    ls_status status = check_absent(folder, "ca");
    for (int i = 0; i < names->count && !status; i++) status = check_absent(folder, names->list[i]);
    return status;
}

static ls_status issue(const char *folder, const char *task, const struct ls_certificate_pair *authority, int days) {
    LS_CLEANUP(ls_certificate_release) struct ls_certificate_pair pair = {0};
    char name[64];
    (void)snprintf(name, sizeof(name), "%s.lockstep", task);
    ls_status status = ls_certificate_issue(authority, name, days, &pair);
    return status ? status : write_pair(folder, task, &pair);
}

static ls_status make_all(const char *folder, const struct names *names, int days) {
    LS_CLEANUP(ls_certificate_release) struct ls_certificate_pair authority = {0};
    ls_status status = prepare_folder(folder, names);
    if (!status) status = ls_certificate_make_authority("Lockstep cluster", days, &authority);
    if (!status) status = write_pair(folder, "ca", &authority);
    for (int i = 0; i < names->count && !status; i++) status = issue(folder, names->list[i], &authority, days);
    return status;
}

static void print_advice(FILE *to, const char *folder, const struct names *names, int days) {
    (void)fprintf(to, "made an authority and %d certificates in %s, valid for %d days\n\n", names->count, folder, days);
    (void)fprintf(to, "each task gets three files and these settings, for example %s:\n", names->list[0]);
    (void)fprintf(to, "  LOCKSTEP_TLS_CERTIFICATE=%s/%s.pem\n", folder, names->list[0]);
    (void)fprintf(to, "  LOCKSTEP_TLS_KEY=%s/%s.key\n", folder, names->list[0]);
    (void)fprintf(to, "  LOCKSTEP_TLS_CA=%s/ca.pem\n\n", folder);
    (void)fprintf(
        to, "%s/ca.key can sign further certificates (openssl x509): keep it away from the workers, or remove it\n",
        folder);
}

ls_status ls_tools_certificates(const char *folder, const char *tf_config, const char *tasks, int days, char **text) {
    LS_NEED(folder, text);
    if (days < 1) return ls_fail(LS_INVALID_ARGUMENT, "certificates for %d days: 1 or more are needed", days);
    struct names names = {NULL, 0};
    ls_status status = tasks ? read_certs_list(tasks, &names) : read_tf_config(tf_config, &names);
    if (!status) status = make_all(folder, &names, days);
    if (!status) status = LS_TEXT(out, print_advice(out, folder, &names, days), "a text", text);
    free(names.list);
    return status;
}
