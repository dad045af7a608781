/* The end of a group of devices (tests/far): what it waits for, and what is given back when. */
#include <dlfcn.h>
#include <lockstep/tools.h>
#include <stdlib.h>

#include "base/status.h"
#include "far/far.h"
#include "gradients/adder.h"
#include "gradients/nccl.h"
#include "harness.h"
#include "strategy/strategy.h"

/* The plugin's own: memory that was given back while a group could still use it. */
static int hasty(void) {
    void *plugin = dlopen(getenv("LOCKSTEP_PLUGIN"), RTLD_NOW | RTLD_NOLOAD);
    const struct far_counts *found = plugin ? dlsym(plugin, "far_counts") : NULL;
    ck_assert_ptr_nonnull(found);
    (void)dlclose(plugin);
    return found->hasty;
}

static ls_strategy *two_devices(void) {
    ls_strategy *strategy = NULL;
    ls_status status = ls_mirrored_strategy_new(
        LS_STRATEGY(.devices = "gpu:0,gpu:1", .cross_device_ops = LS_NCCL_ALL_REDUCE), &strategy);
    assert_ok(status);
    return strategy;
}

/* A step is given up while a device still computes its part of a bucket. */
TEST(ops_end_first) {
    ls_strategy *strategy = two_devices();
    struct ls_device *device = strategy->replicas[1].device;
    struct ls_nccl *nccl = NULL;
    const float one = 1;
    void *memory = NULL;
    assert_ok(ls_nccl_open(strategy, &nccl));
    ck_assert_ptr_nonnull(nccl);
    assert_ok(device->ops->allocate(device, sizeof(one), &memory));
    assert_ok(device->ops->copy_in(device, memory, &one, sizeof(one)));
    const struct ls_adder adder = {.by = nccl};
    for (int i = 0; i < 2; i++) assert_ok(ls_nccl_adds.give(&adder, i, 0));
    (void)ls_fail(LS_UNKNOWN, "why the step is given up");
    ls_nccl_abort(nccl);
    ck_assert_str_eq(ls_error(), "why the step is given up");
    ck_assert(!ls_nccl_is_left(nccl));
    ls_nccl_free(nccl);
    device->ops->release(device, memory);
    ls_strategy_free(strategy);
}

TEST(vectors_go_last) {
    ls_tools_gpus *gpus = NULL;
    const ls_strategy_options *options = LS_STRATEGY(.devices = "gpu:0,gpu:1", .communication = LS_NCCL);
    assert_ok(ls_tools_gpus_new(options, 64, &gpus));
    int before = hasty();
    assert_ok(ls_tools_gpus_close(gpus, LS_OK));
    ck_assert_int_eq(hasty(), before);
}

TEST(first_vectors_go_last) {
    ls_strategy *strategy = two_devices();
    struct ls_nccl *nccl = NULL;
    int before = hasty();
    ck_assert_int_eq(setenv("LOCKSTEP_FAR_NO_SUM", "1", 1), 0);
    ck_assert_int_eq(ls_nccl_open(strategy, &nccl), LS_FAILED_PRECONDITION);
    (void)unsetenv("LOCKSTEP_FAR_NO_SUM");
    ck_assert_str_eq(ls_error(), "cross-device ops NCCL: asked to add nothing");
    ck_assert_ptr_null(nccl);
    ck_assert_int_eq(hasty(), before);
    ls_strategy_free(strategy);
}

TESTS("abort", .seconds = 60)
