/* A step of Slurm (srun(1); tf.distribute.cluster_resolver.SlurmClusterResolver). The nodes and the tasks of each are
 * listed; which task is on which node follows from the distribution, and is checked with what Slurm says of this node.
 * Ports: those that Slurm has reserved, else by JAX's rule out of job and step. */
#include "resolver/readers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

#define PORTS_A_STEP 16

struct step {
    char **nodes;
    int *counts, node_count;
    int *node_of, *local_of; /* [size] by rank */
    int first_port, ports;   /* reserved ones; ports 0: none */
    uint64_t job;
};

static void release_step(struct step *step) {
    ls_slurm_nodes_free(step->nodes, step->node_count);
    ls_free(step->counts);
    ls_free(step->node_of);
    ls_free(step->local_of);
}

static ls_status read_ports(struct step *step) {
    const char *text = ls_launcher_variable("SLURM_STEP_RESV_PORTS");
    int job = 0, id = 0, last;
    ls_status status = LS_OK;
    if (text && sscanf(text, "%d-%d", &step->first_port, &last) == 2 && step->first_port > 0 &&
        last >= step->first_port && last <= 65535) {
        step->ports = last - step->first_port + 1;
        return LS_OK;
    }
    if (text)
        return ls_fail(LS_INVALID_ARGUMENT, "SLURM_STEP_RESV_PORTS='%.80s' is no range of ports like 12000-12003",
                       text);
    if (ls_launcher_variable("SLURM_JOB_ID")) status = ls_launcher_number("SLURM_JOB_ID", 0, INT_MAX, &job);
    if (!status && ls_launcher_variable("SLURM_STEP_ID")) status = ls_launcher_number("SLURM_STEP_ID", 0, INT_MAX, &id);
    step->job = (uint64_t)job + (uint64_t)PORTS_A_STEP * (uint64_t)id;
    return status;
}

static ls_status read_nodes(struct step *step, const struct ls_launcher *launch) {
    const char *list = "SLURM_STEP_NODELIST", *tasks = "SLURM_STEP_TASKS_PER_NODE";
    ls_status status = ls_slurm_nodes_expand(list, ls_launcher_variable(list), &step->nodes, &step->node_count);
    if (status) return status;
    long sum = 0;
    step->counts = ls_alloc_array((size_t)step->node_count, sizeof(*step->counts));
    step->node_of = ls_alloc_array((size_t)launch->size, sizeof(*step->node_of));
    step->local_of = ls_alloc_array((size_t)launch->size, sizeof(*step->local_of));
    if (!step->counts || !step->node_of || !step->local_of)
        return ls_fail_memory("a step's tasks", (size_t)launch->size * sizeof(int));
    status = ls_slurm_nodes_counts(tasks, ls_launcher_variable(tasks), step->counts, step->node_count);
    for (int i = 0; i < step->node_count; i++) sum += step->counts[i];
    if (!status && sum != launch->size)
        status = ls_fail(LS_INVALID_ARGUMENT, "%s='%.80s' are %ld tasks, and SLURM_STEP_NUM_TASKS is %d", tasks,
                         ls_launcher_variable(tasks), sum, launch->size);
    return status;
}

/* block fills node after node; cyclic deals one task to each node in turn. */
static void distribute(const struct step *step, int size, bool cyclic) {
    int rank = 0;
    for (int round = 0; rank < size; round++)
        for (int node = 0; node < step->node_count; node++) {
            int first = cyclic ? round : 0, end = cyclic ? round + 1 : step->counts[node];
            for (int local = first; local < end && local < step->counts[node] && rank < size; local++) {
                step->node_of[rank] = node;
                step->local_of[rank++] = local;
            }
        }
}

/* Returns true if the list of numbers "0,2" has exactly the ranks that are on the node. */
static bool has_ranks(const char *list, const struct step *step, int size, int node) {
    for (int rank = 0; rank < size; rank++) {
        char *end;
        if (step->node_of[rank] != node) continue;
        if (strtol(list, &end, 10) != rank || end == list) return false;
        list = end + (*end == ',');
    }
    return !*list;
}

static ls_status check_own(const struct step *step, const struct ls_launcher *launch) {
    const char *name = ls_launcher_variable("SLURMD_NODENAME"), *own = step->nodes[step->node_of[launch->rank]];
    const char *ranks = ls_launcher_variable("SLURM_GTIDS"), *how = ls_launcher_variable("SLURM_DISTRIBUTION");
    bool elsewhere = name && strcmp(name, own) != 0;
    if (!elsewhere && (!ranks || has_ranks(ranks, step, launch->size, step->node_of[launch->rank]))) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "Slurm has put task %d on '%.80s' with the tasks %.80s, and by SLURM_DISTRIBUTION='%.40s' it were "
                   "on '%.80s': start the step with srun -m block, or give TF_CONFIG",
                   launch->rank, name ? name : own, ranks ? ranks : "?", how ? how : "", own);
}

static bool is_cyclic(const struct ls_launcher *launch, const struct step *step) {
    const char *how = ls_launcher_variable("SLURM_DISTRIBUTION");
    if (how) return !strncmp(how, "cyclic", 6);
    return launch->size <= step->node_count; /* srun's default */
}

/* In a small step each task has a port of its own, so that two nodes may be one machine. */
static ls_status put_places(struct ls_launcher *launch, const struct step *step) {
    for (int rank = 0; rank < launch->size; rank++) {
        int local = step->local_of[rank], index = launch->size <= PORTS_A_STEP ? rank : local;
        int port = step->ports ? step->first_port + local : ls_launcher_port(step->job, index);
        if (step->ports && local >= step->ports)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "SLURM_STEP_RESV_PORTS='%.40s' are %d ports, and a node of the step has more tasks: start "
                           "it with srun --resv-ports=N, N at least the tasks a node",
                           ls_launcher_variable("SLURM_STEP_RESV_PORTS"), step->ports);
        ls_status status = ls_launcher_put(launch, rank, step->nodes[step->node_of[rank]], port);
        if (status) return status;
    }
    return LS_OK;
}

static ls_status read_step(struct ls_launcher *launch, struct step *step) {
    ls_status status = read_nodes(step, launch);
    if (!status) status = read_ports(step);
    if (status) return status;
    distribute(step, launch->size, is_cyclic(launch, step));
    status = check_own(step, launch);
    return status ? status : put_places(launch, step);
}

ls_status ls_slurm_read(struct ls_launcher *launch) {
    int parts = 0;
    LS_CLEANUP(release_step) struct step step = {0};
    if (!ls_launcher_variable("SLURM_STEP_NODELIST") || !ls_launcher_variable("SLURM_STEP_TASKS_PER_NODE") ||
        !ls_launcher_variable("SLURM_STEP_NUM_TASKS"))
        return LS_OK;
    ls_status status = ls_launcher_count(launch, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
    if (!status && ls_launcher_variable("SLURM_HET_SIZE"))
        status = ls_launcher_number("SLURM_HET_SIZE", 0, 1 << 20, &parts);
    if (status || launch->size <= 1) return status;
    if (parts > 1)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "SLURM_HET_SIZE is %d: a heterogeneous job is not read; give TF_CONFIG, or start one component",
                       parts);
    return read_step(launch, &step);
}

bool ls_slurm_lacks_step(int *tasks, bool *first) {
    const char *rank = ls_launcher_variable("SLURM_PROCID"), *size = ls_launcher_variable("SLURM_NTASKS");
    *first = !rank || !strcmp(rank, "0");
    *tasks = size ? atoi(size) : 0;
    return *tasks > 1;
}
