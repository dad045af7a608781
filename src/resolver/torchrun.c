/* torchrun (torch.distributed.run), and whoever sets its variables by hand (init_method env://). They name rank 0's
 * address alone. On one host the workers' ports follow from the job's name; on several rank 0 hands out the addresses.
 * The agent of torchrun listens on MASTER_PORT itself, so no worker takes it. */
#include "resolver/readers.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

static bool is_loopback(const char *host) {
    return !strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "::1");
}

static ls_status is_here(const struct ls_launcher *launch, const char *address, bool *here) {
    int local = 0;
    *here = is_loopback(address);
    if (!ls_launcher_variable("LOCAL_WORLD_SIZE")) return LS_OK;
    ls_status status = ls_launcher_number("LOCAL_WORLD_SIZE", 1, launch->size, &local);
    *here = local == launch->size;
    return status;
}

ls_status ls_torchrun_read(struct ls_launcher *launch) {
    const char *run = ls_launcher_variable("TORCHELASTIC_RUN_ID"), *address = ls_launcher_variable("MASTER_ADDR");
    char job[LS_LAUNCHER_TEXT];
    bool here = false;
    int port;
    if (!run && ls_launcher_variable("PET_NNODES")) return LS_OK;
    ls_status status = ls_launcher_count(launch, "RANK", "WORLD_SIZE");
    if (status || launch->size <= 1) return status;
    if (!address)
        return ls_fail(LS_INVALID_ARGUMENT, "RANK and WORLD_SIZE are set and MASTER_ADDR is not: set it too, or none");
    status = ls_launcher_number("MASTER_PORT", 1, 65535, &port);
    if (!status) status = is_here(launch, address, &here);
    if (status) return status;
    (void)snprintf(job, sizeof(job), "torchrun %d %.100s", port, run ? run : "");
    if (here) return ls_launcher_put_local(launch, job);
    ls_launcher_meet(launch, address, 0, job);
    return LS_OK;
}
