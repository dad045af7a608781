/* The far device and the plugin around it. Its environment: LOCKSTEP_FAR_STUCK, no copy is ever done;
 * LOCKSTEP_FAR_FAILS=N, on gpu:0 the N-th optimizer op fails when it runs; LOCKSTEP_FAR_ABORT_STUCK, no abort of a
 * group ever ends; LOCKSTEP_FAR_NO_GROUP, there is no id for one; LOCKSTEP_FAR_NO_SUM, no group adds anything. */
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "far.h"

const struct ls_plugin_host *far_host;
__attribute__((visibility("default"))) struct far_counts far_counts;

ls_status far_give(ls_status status) {
    if (status) far_host->set_error(ls_error());
    return status;
}

static void far_close(struct ls_device *device) {
    struct far_device *far = (struct far_device *)device;
    far_lock();
    far_do(far, far->copies.queued);
    far_forget(far);
    far_unlock();
    ls_device_close(far->inner);
    ls_free(far);
}

/* The calling threads compute nothing here. */
static ls_status far_enter(struct ls_device *device, struct ls_thread_state *before) {
    (void)device;
    *before = (struct ls_thread_state){0};
    return LS_OK;
}

static void far_leave(struct ls_device *device, const struct ls_thread_state *before) {
    (void)device, (void)before;
}

static ls_status device_allocate(struct ls_device *device, size_t size, void **memory) {
    return far_give(far_allocate((struct far_device *)device, size, memory));
}

static void device_release(struct ls_device *device, void *memory) {
    far_release((struct far_device *)device, memory);
}

static ls_status far_copy_in(struct ls_device *device, void *to, const void *from, size_t size) {
    return far_give(far_queue_copy((struct far_device *)device, to, from, size, true));
}

static ls_status far_copy_out(struct ls_device *device, void *to, const void *from, size_t size) {
    struct far_device *far = (struct far_device *)device;
    ls_status status = far_queue_copy(far, to, from, size, false);
    if (status) return far_give(status);
    far_lock();
    far_do(far, 0);
    status = far->status ? ls_fail(far->status, "%s: %s", device->name, far->error) : LS_OK;
    far_unlock();
    return far_give(status);
}

static const struct ls_device_ops far_ops = {.close = far_close,
                                             .enter = far_enter,
                                             .leave = far_leave,
                                             .allocate = device_allocate,
                                             .release = device_release,
                                             .copy_in = far_copy_in,
                                             .copy_out = far_copy_out,
                                             .build = far_build,
                                             .discard = far_discard,
                                             .compile = far_compile,
                                             .queue = &far_queue_ops};

static ls_status far_open(int index, int threads, struct ls_device **device) {
    const char *failing = getenv("LOCKSTEP_FAR_FAILS");
    struct far_device *far = ls_alloc(sizeof(*far));
    if (!far) return far_give(ls_fail_memory("a far device", sizeof(*far)));
    ls_status status = ls_cpu_kind.open(index, threads, &far->inner);
    if (status) {
        ls_free(far);
        return far_give(status);
    }
    far->device = (struct ls_device){.ops = &far_ops, .threads = far->inner->threads};
    (void)snprintf(far->device.name, sizeof(far->device.name), "gpu:%d", index);
    far->index = index;
    far->stuck = getenv("LOCKSTEP_FAR_STUCK");
    far->failing = failing && index == 0 ? atoi(failing) : 0;
    *device = &far->device;
    return LS_OK;
}

static int far_count(void) {
    return 16;
}

static void far_describe(char *text, size_t size) {
    (void)snprintf(text, size, "the test's far device");
}

static const char *far_unavailable(void) {
    return NULL;
}

const struct ls_device_kind far_device_kind = {"gpu", far_unavailable, far_count, far_describe, far_open};

static void far_fingerprint(char *text, size_t size) {
    (void)snprintf(text, size, "far");
}

/* ---- the lock, which threads take again while they do what other devices wait for ---- */

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_lock(void) {
    pthread_mutexattr_t again;
    (void)pthread_mutexattr_init(&again);
    (void)pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&lock, &again);
    (void)pthread_mutexattr_destroy(&again);
}

void far_lock(void) {
    (void)pthread_once(&once, make_lock);
    (void)pthread_mutex_lock(&lock);
}

void far_unlock(void) {
    (void)pthread_mutex_unlock(&lock);
}

/* ---- the plugin ---- */

static const struct ls_plugin far_plugin = {.abi = LS_PLUGIN_ABI,
                                            .version = NULL,
                                            .kind = &far_device_kind,
                                            .fingerprint = far_fingerprint,
                                            .libraries = far_describe,
                                            .group = &far_group_ops};

ls_plugin_entry_fn ls_cuda_plugin __attribute__((visibility("default")));
const struct ls_plugin *ls_cuda_plugin(const struct ls_plugin_host *host, const char **why) {
    static struct ls_plugin plugin;
    if (host->abi != LS_PLUGIN_ABI) {
        *why = "another version";
        return NULL;
    }
    far_host = host;
    if (getenv("LOCKSTEP_FAR_ABORT_STUCK")) far_aborts_wait = true;
    plugin = far_plugin;
    plugin.version = host->version;
    return &plugin;
}
