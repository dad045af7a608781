/* GPUs are a plugin's work, and this version has none: the row is here so that whoever asks for one, or asks what there
 * is, is told why not. */
#include "device/gpu.h"

#include <stdio.h>

#include "base/status.h"

static const char *gpu_unavailable(void) {
    return "this build has no GPU plugin yet";
}

static int gpu_count(void) {
    return 0;
}

static void gpu_describe(char *text, size_t size) {
    (void)snprintf(text, size, "none");
}

static ls_status gpu_open(int index, int threads, struct ls_device **device) {
    (void)threads, (void)device;
    return ls_fail(LS_UNIMPLEMENTED, "gpu:%d: %s", index, gpu_unavailable());
}

const struct ls_device_kind ls_gpu_kind = {"gpu", gpu_unavailable, gpu_count, gpu_describe, gpu_open};
