/* A plugin that is wrong in the way that LOCKSTEP_TEST_PLUGIN says. */
#include <stdlib.h>
#include <string.h>

#include "device/plugin.h"

static const char *unavailable(void) {
    return "the double has no GPU";
}

static const struct ls_device_kind kind = {.name = "gpu", .unavailable = unavailable};

__attribute__((visibility("default"))) ls_plugin_entry_fn ls_cuda_plugin;

const struct ls_plugin *ls_cuda_plugin(const struct ls_plugin_host *host, const char **why) {
    static struct ls_plugin plugin = {.abi = LS_PLUGIN_ABI, .version = LS_VERSION, .kind = &kind};
    const char *wrong = getenv("LOCKSTEP_TEST_PLUGIN");
    if (host->abi != LS_PLUGIN_ABI || strcmp(host->version, LS_VERSION) || !wrong) return NULL;
    if (!strcmp(wrong, "abi")) plugin.abi = 77;
    if (!strcmp(wrong, "version")) plugin.version = "9.9.9";
    *why = "it is of another world";
    return strcmp(wrong, "why") ? &plugin : NULL;
}
