/* Loading of the GPU plugin. GPUs are a plugin's work, so that lockstep runs without a driver. A plugin that is not
 * used has a reason, which messages and lockstep info tell. The plugin found is the process's, as the driver is. */
#define _GNU_SOURCE
#include "device/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/status.h"
#include "device/plugin.h"
#include "base/plain.h"

#define PLUGIN "lockstep-cuda.so"
#define DRIVER "libcuda.so.1"

static struct {
    const struct ls_plugin *plugin; /* NULL if not used; then reason says why */
    char reason[2 * LS_SETTING_TEXT + 256];
    bool expected; /* a driver answers, or a plugin is named */
    struct ls_plugin_host host;
} found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

__attribute__((format(printf, 1, 2))) static void refuse(const char *format, ...) {
    (void)LS_PLAIN_ARGUMENTS(found.reason, sizeof(found.reason), format);
}

/* ---- the driver ---- */

/* A function of the driver, or NULL. POSIX promises that this cast works. */
static void find_symbol(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof(symbol));
}

/* The driver is asked before the plugin is looked for: where there is no GPU a missing plugin is no trouble, and where
 * there is one the user should hear why it is not used. cuInit makes no context on a device. */
static bool driver_answers(void) {
    int (*start)(unsigned flags), (*count)(int *), (*explain)(int, const char **);
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    const char *words = "it does not say why";
    int devices = 0;
    if (!driver) {
        refuse("no GPU driver answers: %s", dlerror());
        return false;
    }
    find_symbol(driver, "cuInit", &start), find_symbol(driver, "cuDeviceGetCount", &count);
    find_symbol(driver, "cuGetErrorString", &explain);
    int error = start && count ? start(0) : -1;
    if (!error) error = count(&devices);
    if (!error && devices > 0) return true;
    if (error && explain) (void)explain(error, &words);
    refuse("no GPU: the driver (" DRIVER ") %s%s", error ? "answers: " : "sees none", error ? words : "");
    return false;
}

/* ---- the plugin ---- */

static void use(const char *path, void *module) {
    ls_plugin_entry_fn *enter;
    const char *why = "it does not say why";
    find_symbol(module, LS_PLUGIN_ENTRY, &enter);
    if (!enter) {
        refuse("the plugin %s has no function " LS_PLUGIN_ENTRY, path);
        return;
    }
    const struct ls_plugin *plugin = enter(&found.host, &why);
    if (!plugin)
        refuse("the plugin %s does not suit lockstep " LS_VERSION ": %s", path, why);
    else if (plugin->abi != LS_PLUGIN_ABI)
        refuse("the plugin %s has interface %d, but lockstep " LS_VERSION " has %d", path, plugin->abi, LS_PLUGIN_ABI);
    else if (strcmp(plugin->version, LS_VERSION))
        refuse("the plugin %s is of version %s, but this is lockstep " LS_VERSION, path, plugin->version);
    else
        found.plugin = plugin;
}

static void load_plugin(const char *path) {
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module)
        use(path, module);
    else
        refuse("the GPU plugin cannot be loaded: %s", dlerror());
    if (module && !found.plugin) (void)dlclose(module);
}

/* Folders of the plugin. The first ones are below, or are, the folder of the file with this code, as in an installed
 * tree, wherever it was moved to, and in a build. The last one is the place of installation, for programs that hold
 * this code themselves. */
static const char *const folders[] = {"lockstep-" LS_VERSION "/", "", LS_PLUGIN_FOLDER "/"};

/* Writes where the plugin is, or, if it is nowhere, where an installed one would be. */
static bool find_plugin(char *path, size_t size) {
    Dl_info info;
    const char *file = dladdr(&once, &info) && info.dli_fname ? info.dli_fname : "";
    int length = (int)(strrchr(file, '/') ? strrchr(file, '/') + 1 - file : 0);
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        bool absolute = *folders[i] == '/';
        (void)snprintf(path, size, "%.*s%s" PLUGIN, absolute ? 0 : length, file, folders[i]);
        if (!access(path, R_OK)) return true;
    }
    (void)snprintf(path, size, "%.*s%s" PLUGIN, length, file, folders[0]);
    return false;
}

static void look_for_plugin(void) {
    char path[4096];
    struct ls_settings settings;
    if (ls_settings_read(&settings)) {
        refuse("%s", ls_error());
        return;
    }
    found.host = (struct ls_plugin_host){LS_PLUGIN_ABI,           LS_VERSION,        ls_error_keep, ls_error,
                                         settings.device_timeout, settings.cuda_sync};
    found.expected = *settings.plugin || driver_answers();
    if (!found.expected) return;
    if (*settings.plugin)
        load_plugin(settings.plugin);
    else if (find_plugin(path, sizeof(path)))
        load_plugin(path);
    else
        refuse("there is a GPU driver, but %s is not there (built without CUDA?)", path);
}

static const struct ls_plugin *plugin(void) {
    (void)pthread_once(&once, look_for_plugin);
    return found.plugin;
}

/* ---- the row ---- */

static const char *gpu_unavailable(void) {
    const struct ls_plugin *used = plugin();
    return used ? used->kind->unavailable() : found.reason;
}

static int gpu_count(void) {
    return gpu_unavailable() ? 0 : found.plugin->kind->count();
}

static void gpu_describe(char *text, size_t size) {
    if (gpu_unavailable())
        (void)snprintf(text, size, "none");
    else
        found.plugin->kind->describe(text, size);
}

static ls_status gpu_open(int index, int threads, struct ls_device **device) {
    const char *reason = gpu_unavailable();
    if (reason) return ls_fail(LS_UNIMPLEMENTED, "gpu:%d: %s", index, reason);
    return found.plugin->kind->open(index, threads, device);
}

const struct ls_device_kind ls_gpu_kind = {"gpu", gpu_unavailable, gpu_count, gpu_describe, gpu_open};

const struct ls_device_group_ops *ls_gpu_group(const char **why) {
    const char *reason = gpu_unavailable();
    const struct ls_device_group_ops *group = reason ? NULL : found.plugin->group;
    if (!group) *why = reason ? reason : found.plugin->no_group;
    return group;
}

const char *ls_gpu_trouble(void) {
    const char *reason = gpu_unavailable();
    return found.expected ? reason : NULL;
}

void ls_gpu_fingerprint(char *text, size_t size) {
    if (size) *text = 0;
    if (!gpu_unavailable()) found.plugin->fingerprint(text, size);
}
