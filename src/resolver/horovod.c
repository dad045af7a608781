/* horovodrun with Gloo. Its variables name the address of its own key-value store alone, so the workers find each other
 * where all are on this host. */
#include "resolver/readers.h"

#include <stdio.h>

ls_status ls_horovod_read(struct ls_launcher *launch) {
    const char *address = ls_launcher_variable("HOROVOD_GLOO_RENDEZVOUS_ADDR");
    const char *port = ls_launcher_variable("HOROVOD_GLOO_RENDEZVOUS_PORT");
    char job[LS_LAUNCHER_TEXT];
    bool here = false;
    ls_status status = ls_launcher_count(launch, "HOROVOD_RANK", "HOROVOD_SIZE");
    if (status || launch->size <= 1) return status;
    status = ls_launcher_all_here(launch, "HOROVOD_LOCAL_SIZE", &here);
    if (status || !here) return status;
    (void)snprintf(job, sizeof(job), "horovod %.90s %.90s", address ? address : "", port ? port : "");
    return ls_launcher_put_local(launch, job);
}
