/* A launcher's environment from any bytes, lines of NAME=VALUE: reading it ends with a cluster or with one error. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "resolver/resolver.h"
#include "fuzz/fuzz.h"

static void require(bool condition) {
    if (!condition) abort();
}

/* Names that are no launcher's change nothing, and are left out: the process needs its own. */
static bool is_read(const char *name) {
    static const char *const begins[] = {"SLURM",
                                         "RANK=",
                                         "WORLD_",
                                         "LOCAL_",
                                         "MASTER_",
                                         "TORCHELASTIC_",
                                         "OMPI_",
                                         "PMI",
                                         "MPI_",
                                         "MV2_",
                                         "HOROVOD_",
                                         "SM_",
                                         "AWS_BATCH_",
                                         "PET_",
                                         "JAX_",
                                         "JOB_",
                                         "CLUSTER_SPEC",
                                         "TF_CONFIG",
                                         "LOCKSTEP_CLUSTER",
                                         "LOCKSTEP_NUM_WORKERS",
                                         "LOCKSTEP_RENDEZVOUS",
                                         "LOCKSTEP_SUBDOMAIN"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (!strncmp(name, begins[i], strlen(begins[i]))) return true;
    return false;
}

static void set_lines(char *text) {
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *equals = strchr(line, '=');
        if (!equals || equals == line || !is_read(line)) continue;
        *equals = 0;
        (void)setenv(line, equals + 1, 1);
    }
}

static void check_spec(const struct ls_cluster_view *spec, const struct ls_resolution *resolution) {
    require(spec->cluster_mode == (strcmp(resolution->source, "none") != 0));
    require(spec->meet_port >= 0 && spec->meet_port < 65536);
    for (int i = 0; i < spec->task_count; i++)
        require(spec->meet_port && i ? !spec->tasks[i].port : spec->tasks[i].port > 0 && spec->tasks[i].port < 65536);
    if (spec->type != LS_TASK_WORKER) return;
    const struct ls_task *own = ls_cluster_view_member(spec, spec->id_in_cluster);
    require(own && own->index == spec->index && spec->num_workers <= spec->task_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_cluster_view *spec = NULL;
    struct ls_resolution resolution;
    char *text = ls_alloc(size + 1);
    if (!text || size > 4096) { /* a million tasks take a while, and show nothing more */
        ls_free(text);
        return 0;
    }
    memcpy(text, data, size);
    (void)clearenv();
    set_lines(text);
    ls_status status = ls_resolver_read(NULL, &spec, &resolution);
    require(status == LS_OK ? spec != NULL : !spec && ls_error()[0]);
    if (spec) check_spec(spec, &resolution);
    ls_cluster_view_free(spec);
    ls_free(text);
    return 0;
}
