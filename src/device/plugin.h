/* The interface of lockstep and its GPU plugin: two tables of functions, exchanged once when the plugin is loaded. The
 * plugin is a module of its own, so that lockstep runs without a driver. A plugin of another version is refused. */
#pragma once
#include "device/device.h"
#include "device/device_group.h"

#define LS_PLUGIN_ENTRY "ls_cuda_plugin" /* the one symbol that it exports: ls_plugin_entry_fn */
#define LS_PLUGIN_ABI   6                /* counts changes to what is below, and to device.h, device_group.h and op.h */

/* The plugin's functions of lockstep. Their errors are those of the calling thread, as everywhere. */
struct ls_plugin_host {
    int abi;
    const char *version;                    /* ls_version() */
    void (*set_error)(const char *message); /* of this thread */
    const char *(*error)(void);
    double timeout;    /* seconds that what is queued on a GPU may take */
    bool wait_each_op; /* so that a failure names its op */
};
struct ls_plugin {
    int abi;
    const char *version;
    /* A row of the table of device kinds: unavailable tells why no GPU can be used although a driver is there. */
    const struct ls_device_kind *kind;
    void (*fingerprint)(char *text, size_t size); /* what fixes the bits: architecture and library versions */
    void (*libraries)(char *text, size_t size);   /* "CUDA 13.0, cuDNN 9.19.0, NCCL 2.28.9", for people */
    const struct ls_device_group_ops *group;      /* NULL without NCCL */
    const char *no_group;                         /* the reason, for a NULL group */
};
/* NULL when it does not suit host; then *why says so. */
typedef const struct ls_plugin *ls_plugin_entry_fn(const struct ls_plugin_host *host, const char **why);
