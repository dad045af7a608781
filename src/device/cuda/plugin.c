/* The plugin's one exported function: the exchange of tables with lockstep. */
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/host.h"

static const struct ls_device_kind kind = {.name = "gpu",
                                           .unavailable = ls_cuda_unavailable,
                                           .count = ls_cuda_count,
                                           .describe = ls_cuda_describe,
                                           .open = ls_cuda_open};

__attribute__((visibility("default"))) ls_plugin_entry_fn ls_cuda_plugin;

const struct ls_plugin *ls_cuda_plugin(const struct ls_plugin_host *host, const char **why) {
    static char no_group[200];
    static struct ls_plugin plugin = {.abi = LS_PLUGIN_ABI,
                                      .version = LS_VERSION,
                                      .kind = &kind,
                                      .fingerprint = ls_cuda_fingerprint,
                                      .libraries = ls_cuda_libraries,
                                      .no_group = no_group};
    if (host->abi != LS_PLUGIN_ABI || strcmp(host->version, LS_VERSION)) {
        *why = "it is of version " LS_VERSION;
        return NULL;
    }
    ls_cuda_set_host(host);
    plugin.group = ls_cuda_group(no_group, sizeof(no_group));
    return &plugin;
}
