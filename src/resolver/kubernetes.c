/* Pods whose names differ by their number. A headless service makes the names known; the variables give the own number
 * and, but for an Indexed Job, the count. */
#include "resolver/readers.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

#define NAME_SIZE 256

/* ---- An Indexed Job ---- */

/* The full name that the kubelet has written beside the short one: "10.1.2.3 job-0.service.space.svc job-0". */
static void find_full_name(const char *hosts, char name[NAME_SIZE]) {
    FILE *file = fopen(hosts, "re");
    char line[1024], full[NAME_SIZE], alias[NAME_SIZE];
    size_t length = strlen(name);
    while (file && fgets(line, sizeof(line), file)) {
        int count = sscanf(line, "%*s %255s %255s", full, alias);
        if (count < 1 || *line == '#' || strncmp(full, name, length) != 0 || full[length] != '.') continue;
        (void)snprintf(name, NAME_SIZE, "%s", full);
        break;
    }
    if (file) (void)fclose(file);
}

static ls_status find_own_name(char name[NAME_SIZE]) {
    const char *service = ls_launcher_variable("LOCKSTEP_SUBDOMAIN");
    char own[NAME_SIZE / 2] = "";
    if (gethostname(own, sizeof(own) - 1)) return ls_fail(LS_INTERNAL, "this host has no name");
    (void)snprintf(name, NAME_SIZE, "%s%s%.100s", own, service ? "." : "", service ? service : "");
    if (!service) find_full_name("/etc/hosts", name);
    return LS_OK;
}

ls_status ls_kubernetes_read_indexed_job(struct ls_launcher *launch) {
    char name[NAME_SIZE], number[16];
    if (!ls_launcher_variable("JOB_COMPLETION_INDEX")) return LS_OK;
    if (!ls_launcher_variable("LOCKSTEP_NUM_WORKERS"))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "JOB_COMPLETION_INDEX=%.20s says that this is a pod of an Indexed Job, and no variable of "
                       "Kubernetes says how many there are: set LOCKSTEP_NUM_WORKERS to the job's completions",
                       ls_launcher_variable("JOB_COMPLETION_INDEX"));
    ls_status status = ls_launcher_count(launch, "JOB_COMPLETION_INDEX", "LOCKSTEP_NUM_WORKERS");
    if (!status && launch->size > 1) status = find_own_name(name);
    if (status || launch->size <= 1) return status;
    (void)snprintf(number, sizeof(number), "-%d", launch->rank);
    size_t end = strcspn(name, "."), length = strlen(number);
    if (end < length || strncmp(name + end - length, number, length) != 0)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "JOB_COMPLETION_INDEX is %d, and this pod's name '%.200s' does not end in -%d: keep the name "
                       "that an Indexed Job gives its pods",
                       launch->rank, name, launch->rank);
    return ls_launcher_put_numbered(launch, "the pod's name", name, LS_LAUNCHER_PORT);
}

/* ---- Kubeflow ---- */

static ls_status check_one_process(const char *counts) {
    const char *text = ls_launcher_variable("PET_NPROC_PER_NODE");
    int processes = 1;
    if (!text || !strcmp(text, "auto") || !strcmp(text, "cpu") || !strcmp(text, "gpu")) return LS_OK;
    ls_status status = ls_launcher_number("PET_NPROC_PER_NODE", 1, 1024, &processes);
    if (status || processes == 1) return status;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "PET_NPROC_PER_NODE is %d: %s counts pods, and each is to run %d processes: start the program with "
                   "torchrun, or set nproc_per_node to 1",
                   processes, counts, processes);
}

/* Of the first generation of the operator: "job-master-0", "job-worker-0" and so on. MASTER_ADDR is localhost in the
 * master itself, which then knows its own name. */
static ls_status put_replicas(struct ls_launcher *launch, int port) {
    char master[NAME_SIZE], host[NAME_SIZE + 32], own[NAME_SIZE] = "";
    const char *address = ls_launcher_variable("MASTER_ADDR");
    if (address && !strcmp(address, "localhost") && !gethostname(own, sizeof(own) - 1)) address = own;
    (void)snprintf(master, sizeof(master), "%s", address ? address : "");
    char *end = strstr(master, "-master-0");
    if (!end)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "MASTER_ADDR='%.200s' has no '-master-0', so the names of the other pods cannot be made of it: "
                       "give TF_CONFIG",
                       address ? address : "");
    ls_status status = ls_launcher_put(launch, 0, master, port);
    const char *rest = end + strlen("-master-0");
    for (int i = 1; i < launch->size && !status; i++) {
        (void)snprintf(host, sizeof(host), "%.*s-worker-%d%s", (int)(end - master), master, i - 1, rest);
        status = ls_launcher_put(launch, i, host, port);
    }
    return status;
}

static ls_status read_replicas(struct ls_launcher *launch) {
    int port = 0, pods = 0;
    ls_status status = check_one_process("RANK");
    if (!status) status = ls_launcher_count(launch, "RANK", "WORLD_SIZE");
    if (status || launch->size <= 1) return status;
    status = ls_launcher_number("PET_NNODES", 1, 1 << 20, &pods);
    if (!status && pods != launch->size)
        status = ls_fail(LS_INVALID_ARGUMENT, "WORLD_SIZE is %d and PET_NNODES is %d, though each pod has one process",
                         launch->size, pods);
    if (!status) status = ls_launcher_number("MASTER_PORT", 1, 65535, &port);
    return status ? status : put_replicas(launch, port);
}

/* Returns true if the name has a number before the first dot, so the others' names follow from it. */
static bool is_numbered(const char *name) {
    size_t end = strcspn(name, "."), begin = end;
    while (begin && isdigit((unsigned char)name[begin - 1])) begin--;
    return begin < end && begin > 1 && name[begin - 1] == '-';
}

ls_status ls_kubernetes_read_pytorchjob(struct ls_launcher *launch) {
    int port = 0;
    if (!ls_launcher_variable("PET_NNODES") || ls_launcher_variable("TORCHELASTIC_RUN_ID")) return LS_OK;
    if (ls_launcher_variable("WORLD_SIZE")) return read_replicas(launch);
    ls_status status = check_one_process("PET_NODE_RANK");
    if (!status) status = ls_launcher_count(launch, "PET_NODE_RANK", "PET_NNODES");
    if (status || launch->size <= 1) return status;
    if (!ls_launcher_variable("PET_MASTER_ADDR"))
        return ls_fail(LS_INVALID_ARGUMENT, "PET_NODE_RANK and PET_NNODES are set and PET_MASTER_ADDR is not");
    status = ls_launcher_number("PET_MASTER_PORT", 1, 65535, &port);
    if (status) return status;
    if (is_numbered(ls_launcher_variable("PET_MASTER_ADDR")))
        return ls_launcher_put_numbered(launch, "PET_MASTER_ADDR", ls_launcher_variable("PET_MASTER_ADDR"), port);
    ls_launcher_meet(launch, ls_launcher_variable("PET_MASTER_ADDR"), port, "pytorchjob");
    return LS_OK;
}

ls_status ls_kubernetes_read_jax(struct ls_launcher *launch) {
    const char *address = ls_launcher_variable("JAX_COORDINATOR_ADDRESS");
    ls_status status = ls_launcher_count(launch, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES");
    if (status || launch->size <= 1) return status;
    const char *colon = address ? strrchr(address, ':') : NULL;
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    if (!end || *end || port < 1 || port > 65535)
        return ls_fail(LS_INVALID_ARGUMENT, "JAX_COORDINATOR_ADDRESS='%.200s' is no host:port", address ? address : "");
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof(name), "%.*s", (int)(colon - address), address);
    return ls_launcher_put_numbered(launch, "JAX_COORDINATOR_ADDRESS", name, (int)port);
}
