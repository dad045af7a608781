/* GPUs are a plugin's work, so that lockstep runs where there is no driver. Here it is looked for, and if it is not
 * used, why: for whoever asks for a GPU, or asks what there is. What was found is the process's, as the driver is. */
#define _GNU_SOURCE
#include "device/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/status.h"
#include "device/plugin.h"

#define PLUGIN "lockstep-cuda.so"
#define DRIVER "libcuda.so.1"

static struct {
    const struct ls_plugin *plugin; /* NULL: not used, and reason says why */
    char reason[2 * LS_SETTING_TEXT + 256];
    bool expected; /* a driver answers, or a plugin is named */
    struct ls_plugin_host host;
} found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

__attribute__((format(printf, 1, 2))) static void refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(found.reason, sizeof(found.reason), format, arguments);
    va_end(arguments);
}

/* ---- the driver ---- */

/* A function of the driver, or NULL. POSIX promises that this cast works. */
static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof(symbol));
}

static bool driver_answers(void) {
    int (*start)(unsigned flags), (*count)(int *), (*explain)(int, const char **);
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    const char *words = "it does not say why";
    int devices = 0;
    if (!driver) {
        refuse("no GPU driver answers: %s", dlerror());
        return false;
    }
    find(driver, "cuInit", &start), find(driver, "cuDeviceGetCount", &count);
    find(driver, "cuGetErrorString", &explain);
    int error = start && count ? start(0) : -1;
    if (!error) error = count(&devices);
    if (!error && devices > 0) return true;
    if (error && explain) (void)explain(error, &words);
    refuse("no GPU: the driver (" DRIVER ") %s%s", error ? "answers: " : "sees none", error ? words : "");
    return false;
}

/* ---- the plugin ---- */

static void set_error(const char *message) {
    (void)ls_fail(LS_UNKNOWN, "%s", message);
}

static void use(const char *path, void *module) {
    ls_plugin_entry_fn *enter;
    const char *why = "it does not say why";
    find(module, LS_PLUGIN_ENTRY, &enter);
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

static void load(const char *path) {
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module)
        use(path, module);
    else
        refuse("the GPU plugin cannot be loaded: %s", dlerror());
    if (module && !found.plugin) (void)dlclose(module);
}

/* In the folder of the file that this code is in, as in a build. */
static bool find_beside(char *path, size_t size) {
    Dl_info info;
    if (!dladdr(&once, &info) || !info.dli_fname) return false;
    const char *slash = strrchr(info.dli_fname, '/');
    int length = slash ? (int)(slash - info.dli_fname) : 1;
    int used = snprintf(path, size, "%.*s/" PLUGIN, length, slash ? info.dli_fname : ".");
    return used > 0 && (size_t)used < size && !access(path, R_OK);
}

static void look(void) {
    char beside[4096];
    struct ls_settings settings;
    if (ls_settings_read(&settings)) {
        refuse("%s", ls_error());
        return;
    }
    found.host = (struct ls_plugin_host){LS_PLUGIN_ABI,           LS_VERSION,        set_error, ls_error,
                                         settings.device_timeout, settings.cuda_sync};
    found.expected = *settings.plugin || driver_answers();
    if (!found.expected) return;
    if (*settings.plugin)
        load(settings.plugin);
    else if (!access(LS_PLUGIN_FOLDER "/" PLUGIN, R_OK))
        load(LS_PLUGIN_FOLDER "/" PLUGIN);
    else if (find_beside(beside, sizeof(beside)))
        load(beside);
    else
        refuse("there is a GPU driver, but " LS_PLUGIN_FOLDER "/" PLUGIN " is not there (built without CUDA?)");
}

static const struct ls_plugin *plugin(void) {
    (void)pthread_once(&once, look);
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
