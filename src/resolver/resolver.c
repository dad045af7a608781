/* The sources in their order, and the rules for more than one of them. */
#include "resolver/resolver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kept_error.h"
#include "base/new.h"
#include "base/random.h"
#include "resolver/readers.h"
#include "resolver/tf_config.h"

enum level { OWN, HOROVOD, TORCHRUN, MPI, STEP, SERVICE };

/* A source makes the spec itself (parse), or says rank, size and places (read). */
static const struct source {
    const char *name;
    enum level level;
    ls_status (*read)(struct ls_launcher *launch);
    ls_status (*parse)(struct ls_cluster_view **spec);
} sources[] = {
    {"horovod", HOROVOD, ls_horovod_read, NULL},
    {"torchrun", TORCHRUN, ls_torchrun_read, NULL},
    {"openmpi", MPI, ls_mpi_read_openmpi, NULL},
    {"pmi", MPI, ls_mpi_read_pmi, NULL},
    {"slurm", STEP, ls_slurm_read, NULL},
    {"cluster_spec", SERVICE, NULL, ls_vertex_read},
    {"sagemaker", SERVICE, ls_cloud_read_sagemaker, NULL},
    {"aws_batch", SERVICE, ls_cloud_read_aws_batch, NULL},
    {"pytorchjob", SERVICE, ls_kubernetes_read_pytorchjob, NULL},
    {"jax", SERVICE, ls_kubernetes_read_jax, NULL},
    {"indexed_job", SERVICE, ls_kubernetes_read_indexed_job, NULL},
};
#define SOURCE_COUNT (sizeof(sources) / sizeof(sources[0]))

/* A source as it was read. */
struct found {
    const struct source *source;
    struct ls_launcher launch;
    struct ls_cluster_view *spec; /* of parse, in cluster mode; else NULL */
    struct ls_kept_error error;
};

static bool is_present(const struct found *found) {
    return found->error.status || found->launch.size > 0 || found->spec;
}

static struct found read_source(const struct source *source) {
    struct found found = {.source = source};
    ls_kept_error_set(&found.error, source->read ? source->read(&found.launch) : source->parse(&found.spec));
    if (found.spec && !found.spec->cluster_mode) ls_cluster_view_free(ls_steal(found.spec));
    return found;
}

static void release_found(struct found *found) {
    ls_launcher_release(&found->launch);
    ls_cluster_view_free(found->spec);
}

/* ---- the spec ---- */

static ls_status fill_tasks(struct ls_cluster_view *spec, const struct ls_launcher *launch) {
    const char *others = ls_tf_config_address_is_loopback(launch->meet_host) ? launch->meet_host : "";
    ls_status status = ls_cluster_view_make_workers(spec, launch->size);
    for (int i = 0; i < launch->size && !status; i++) {
        if (launch->meet_port)
            status = ls_cluster_view_place(&spec->tasks[i], i ? others : launch->meet_host, i ? 0 : launch->meet_port);
        else
            status = ls_cluster_view_place(&spec->tasks[i], launch->places[i].host, launch->places[i].port);
    }
    if (status) return status;
    spec->type = LS_TASK_WORKER;
    spec->index = launch->rank;
    spec->meet_port = launch->meet_port;
    spec->job = ls_random_stream(launch->job);
    spec->meet_host = ls_strdup(launch->meet_host);
    return spec->meet_host ? ls_cluster_view_complete(spec) : ls_fail_memory("an address", sizeof(launch->meet_host));
}

/* LOCKSTEP_RENDEZVOUS counts before the addresses that a launcher's variables have. */
static ls_status read_rendezvous(struct ls_launcher *launch) {
    const char *text = ls_launcher_variable("LOCKSTEP_RENDEZVOUS");
    char *host = NULL, job[LS_LAUNCHER_TEXT];
    int port = 0;
    if (!text || launch->size <= 1) return LS_OK;
    ls_status status = ls_tf_config_address_parse("LOCKSTEP_RENDEZVOUS", text, &host, &port);
    if (status) return status;
    (void)snprintf(job, sizeof(job), "%s", launch->job);
    ls_launcher_meet(launch, host, port, job);
    ls_free(host);
    return LS_OK;
}

static ls_status make_spec(struct found *found, struct ls_cluster_view **spec) {
    if (found->spec || found->launch.size <= 1) {
        *spec = ls_steal(found->spec);
        return *spec ? LS_OK : ls_tf_config_parse(NULL, spec);
    }
    ls_status status = read_rendezvous(&found->launch);
    if (status) return status;
    if (!found->launch.places && !found->launch.meet_port)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s (%s) has started processes on several hosts, and its variables do not name the address of "
                       "any: give all LOCKSTEP_RENDEZVOUS=HOST:PORT, the host of rank 0 and a free port of it, or give "
                       "each process its TF_CONFIG; LOCKSTEP_CLUSTER=none lets each work alone",
                       found->launch.says, found->source->name);
    LS_NEW(struct ls_cluster_view, made, "a cluster");
    status = fill_tasks(made, &found->launch);
    return LS_HAND_OVER(status, spec, made, ls_cluster_view_free(made));
}

/* ---- more than one ---- */

static void ignore_found(struct ls_resolution *resolution, const struct found *found, const char *for_whom) {
    if (!resolution || resolution->ignored_count == LS_SOURCES) return;
    struct ls_ignored *ignored = &resolution->ignored[resolution->ignored_count++];
    ignored->source = found->source->name;
    if (found->error.status)
        (void)snprintf(ignored->why, sizeof(ignored->why), "%s is in force; %.300s", for_whom, found->error.message);
    else if (found->launch.size == 1)
        (void)snprintf(ignored->why, sizeof(ignored->why), "%s: one process", found->launch.says);
    else
        (void)snprintf(ignored->why, sizeof(ignored->why), "%s is in force; %s", for_whom,
                       found->spec ? "its cluster is another one's to read" : found->launch.says);
}

/* Two that start processes themselves, or TF_CONFIG and one of them, mean one cluster: they must agree. */
static ls_status compare_to_tf_config(const struct found *found, const struct ls_cluster_view *spec) {
    const struct ls_launcher *launch = &found->launch;
    bool trains = spec->type == LS_TASK_CHIEF || spec->type == LS_TASK_WORKER;
    if (found->error.status || launch->size <= 1 || found->source->level > MPI || !trains) return LS_OK;
    if (launch->size == spec->num_workers && launch->rank == spec->id_in_cluster) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "TF_CONFIG says %s:%d, rank %d of %d, and %s says %s: unset one of them, or say which counts, as in "
                   "LOCKSTEP_CLUSTER=tf_config",
                   ls_cluster_view_type_name(spec->type), spec->index, spec->id_in_cluster, spec->num_workers,
                   found->source->name, launch->says);
}

static ls_status compare_found(const struct found *first, const struct found *other) {
    const struct ls_launcher *a = &first->launch, *b = &other->launch;
    if (first->source->level != other->source->level || first->spec || other->spec || other->error.status) return LS_OK;
    if (a->size <= 1 || b->size <= 1 || (a->rank == b->rank && a->size == b->size)) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "%s says %s, and %s says %s: unset one of them, or say which counts, as in LOCKSTEP_CLUSTER=%s",
                   first->source->name, a->says, other->source->name, b->says, first->source->name);
}

/* TF_CONFIG is in force: the others must not contradict it. */
static ls_status check_others(const struct ls_cluster_view *spec, struct ls_resolution *resolution) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < SOURCE_COUNT && !status; i++) {
        LS_CLEANUP(release_found) struct found found = read_source(&sources[i]);
        if (!is_present(&found)) continue;
        status = compare_to_tf_config(&found, spec);
        ignore_found(resolution, &found, "tf_config");
    }
    return status;
}

/* The first that has started several processes is in force. */
static ls_status read_sources(struct ls_cluster_view **spec, struct ls_resolution *resolution) {
    LS_CLEANUP(release_found) struct found chosen = {0};
    ls_status status = LS_OK;
    for (size_t i = 0; i < SOURCE_COUNT && !status; i++) {
        struct found found = read_source(&sources[i]);
        bool several = found.error.status || found.launch.size > 1 || found.spec;
        if (several && !chosen.source) {
            chosen = found;
            status = ls_kept_error_raise(&found.error);
            continue;
        }
        if (is_present(&found) && chosen.source) status = compare_found(&chosen, &found);
        if (is_present(&found)) ignore_found(resolution, &found, chosen.source ? chosen.source->name : "none");
        release_found(&found);
    }
    if (!status) status = make_spec(&chosen, spec);
    if (!status && resolution && chosen.source) resolution->source = chosen.source->name;
    return status;
}

/* ---- forced ---- */

static ls_status fail_unknown(const char *name) {
    char names[256] = "tf_config";
    for (size_t i = 0, used = strlen(names); i < SOURCE_COUNT; i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, ", %s", sources[i].name);
    return ls_fail(LS_INVALID_ARGUMENT, "LOCKSTEP_CLUSTER='%.80s' is none of %s, none", name, names);
}

static ls_status read_forced(const char *name, struct ls_cluster_view **spec, struct ls_resolution *resolution) {
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        if (strcmp(sources[i].name, name) != 0) continue;
        LS_CLEANUP(release_found) struct found found = read_source(&sources[i]);
        ls_status status = ls_kept_error_raise(&found.error);
        if (!status && !is_present(&found))
            status = ls_fail(LS_INVALID_ARGUMENT, "LOCKSTEP_CLUSTER=%s, and none of its variables is set", name);
        if (!status) status = make_spec(&found, spec);
        if (!status && resolution) resolution->source = sources[i].name;
        return status;
    }
    return fail_unknown(name);
}

static ls_status read_tf_config(const char *text, struct ls_cluster_view **spec, struct ls_resolution *resolution) {
    ls_status status = ls_tf_config_parse(text, spec);
    if (!status && resolution && (*spec)->cluster_mode) resolution->source = "tf_config";
    return status;
}

static ls_status read_environment(struct ls_cluster_view **spec, struct ls_resolution *resolution) {
    struct ls_cluster_view *made = NULL;
    ls_status status = read_tf_config(getenv("TF_CONFIG"), &made, resolution);
    if (status) return status;
    if (!made->cluster_mode) {
        struct ls_cluster_view *other = NULL;
        status = read_sources(&other, resolution);
        if (!status && other->cluster_mode) {
            ls_cluster_view_free(made);
            made = ls_steal(other); /* else TF_CONFIG's own, with its warnings */
        }
        ls_cluster_view_free(other);
    } else {
        status = check_others(made, resolution);
    }
    return LS_HAND_OVER(status, spec, made, ls_cluster_view_free(made));
}

ls_status ls_resolver_read(const char *tf_config, struct ls_cluster_view **spec, struct ls_resolution *resolution) {
    const char *forced = ls_launcher_variable("LOCKSTEP_CLUSTER");
    if (resolution) *resolution = (struct ls_resolution){.source = "none"};
    if (tf_config) return read_tf_config(tf_config, spec, resolution);
    if (!forced) return read_environment(spec, resolution);
    if (!strcmp(forced, "none")) return ls_tf_config_parse(NULL, spec);
    if (!strcmp(forced, "tf_config")) return read_tf_config(getenv("TF_CONFIG"), spec, resolution);
    return read_forced(forced, spec, resolution);
}
