/* The search for the GPU plugin, and the reason for not using it. Each test is a process of its own, for a process
 * looks once. */
#include <dlfcn.h>
#include <stdlib.h>

#include "device/gpu.h"
#include "device/op_fixture.h"
#include "device/plugin.h"
#include "harness.h"

#define TEXT(token)   #token
#define NUMBER(macro) TEXT(macro)

static void assert_unavailable(const char *piece) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    const char *why = "", *reason = ls_gpu_kind.unavailable();
    char text[64] = "";
    int count = 0;
    ck_assert_msg(reason && strstr(reason, piece), "'%s' does not say '%s'", reason ? reason : "available", piece);
    assert_refused(ls_devices_open("gpu:0", 1, devices, &count), piece);
    ck_assert_ptr_nonnull(strstr(ls_error(), "device 'gpu:0': "));
    assert_refused(ls_devices_open("cpu:0,GPU:1", 1, devices, &count), "device 'GPU:1': ");
    assert_refused(ls_devices_open("gpu", 1, devices, &count), piece);
    assert_ok(ls_devices_open("auto", 1, devices, &count));
    ck_assert(count == 1 && devices[0]->host_memory);
    ls_device_close(devices[0]);
    ck_assert_int_eq(ls_gpu_kind.count(), 0);
    ck_assert_int_eq(ls_gpu_kind.open(0, 1, devices), LS_UNIMPLEMENTED);
    ls_gpu_kind.describe(text, sizeof(text));
    ck_assert_str_eq(text, "none");
    ls_gpu_fingerprint(text, sizeof(text));
    ck_assert_str_eq(text, "");
    ck_assert_ptr_null(ls_gpu_group(&why));
    ck_assert_ptr_nonnull(strstr(why, piece));
}

TEST(a_missing_driver_is_named) {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) return; /* there is one */
    assert_unavailable("no GPU driver answers: libcuda.so.1");
}

TEST(a_missing_plugin_is_named) {
    (void)setenv("LOCKSTEP_PLUGIN", "/nowhere/plugin.so", 1);
    assert_unavailable("the GPU plugin cannot be loaded: /nowhere/plugin.so");
}

TEST(a_plugin_without_entry_is_named) {
    (void)setenv("LOCKSTEP_PLUGIN", "libm.so.6", 1);
    assert_unavailable("the plugin libm.so.6 has no function ls_cuda_plugin");
}

static const struct {
    const char *wrong, *message;
} wrongs[] = {
    {"abi", "has interface 77, but lockstep " LS_VERSION " has " NUMBER(LS_PLUGIN_ABI)},
    {"version", "is of version 9.9.9, but this is lockstep " LS_VERSION},
    {"why", "does not suit lockstep " LS_VERSION ": it is of another world"},
    {"nothing", "the double has no GPU"},
};

TEST_EACH(a_wrong_plugin_is_refused, COUNT_OF(wrongs)) {
    (void)setenv("LOCKSTEP_PLUGIN", getenv("LOCKSTEP_TEST_DOUBLE"), 1);
    (void)setenv("LOCKSTEP_TEST_PLUGIN", wrongs[_i].wrong, 1);
    assert_unavailable(wrongs[_i].message);
}

TEST(a_bad_setting_is_named) {
    (void)setenv("LOCKSTEP_CUDA_SYNC", "yes", 1);
    assert_unavailable("LOCKSTEP_CUDA_SYNC='yes' is not 0 or 1");
}

TESTS("plugin")
