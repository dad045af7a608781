/* torchrun (torch.distributed.run), and whoever sets its variables by hand (init_method env://). They name rank 0's
 * address alone. On one host the workers' ports follow from the job's name; on several rank 0 hands out the addresses.
 * The agent of torchrun listens on MASTER_PORT itself, so no worker takes it. */
#include "resolver/readers.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

ls_status ls_torchrun_read(struct ls_launcher *launch) {
    const char *run = ls_launcher_variable("TORCHELASTIC_RUN_ID"), *address = ls_launcher_variable("MASTER_ADDR");
    char job[LS_LAUNCHER_TEXT];
    int port;
    if (!run && ls_launcher_variable("PET_NNODES")) return LS_OK;
    ls_status status = ls_launcher_count(launch, "RANK", "WORLD_SIZE");
    if (status || launch->size <= 1) return status;
    if (!address)
        return ls_fail(LS_INVALID_ARGUMENT, "RANK and WORLD_SIZE are set and MASTER_ADDR is not: set it too, or none");
    status = ls_launcher_number("MASTER_PORT", 1, 65535, &port);
    bool here = !strcmp(address, "localhost") || !strncmp(address, "127.", 4) || !strcmp(address, "::1");
    if (!status) status = ls_launcher_all_here(launch, "LOCAL_WORLD_SIZE", &here);
    if (status) return status;
    (void)snprintf(job, sizeof(job), "torchrun %d %.100s", port, run ? run : "");
    if (here) return ls_launcher_put_local(launch, job);
    ls_launcher_meet(launch, address, 0, job);
    return LS_OK;
}
