/* Lists of devices, the table of kinds, and what a CPU device promises about memory and denormals. */
#include <float.h>
#include <pthread.h>
#include <stdio.h>

#include "device/op_fixture.h"
#include "harness.h"

static const struct {
    const char *list, *names[4];
} good[] = {
    {"1", {"cpu:0"}},
    {"3", {"cpu:0", "cpu:1", "cpu:2"}},
    {" 2 ", {"cpu:0", "cpu:1"}},
    {"cpu", {"cpu:0"}},
    {"cpu:0", {"cpu:0"}},
    {"cpu:3,cpu:1", {"cpu:3", "cpu:1"}},
    {"CPU:0, cpu:63", {"cpu:0", "cpu:63"}},
};

static const struct {
    const char *list, *message;
} bad[] = {
    {NULL, "the list of devices is empty"},
    {"", "the list of devices is empty"},
    {"  ", "the list of devices is empty"},
    {"0", "devices '0': the number of devices must be from 1 to 64"},
    {"-2", "devices '-2': the number"},
    {"65", "devices '65': the number"},
    {"99999999999999999999", "the number of devices must be from 1 to 64"},
    {"tpu:0", "device 'tpu:0': there is no kind of device 'tpu'; there are cpu and gpu"},
    {":0", "device ':0': there is no kind of device ''"},
    {"cpu:0,2", "device '2' is not of the form kind:index"},
    {"cpu:x", "device 'cpu:x': the index after the colon is not a number"},
    {"cpu:", "the index after the colon is not a number"},
    {"cpu:-1", "the index after the colon is not a number"},
    {"cpu:1x", "the index after the colon is not a number"},
    {"cpu:64", "device 'cpu:64': the index is past the last one, cpu:63"},
    {"cpu:4294967296", "the index after the colon is not a number"},
    {"cpu:0,,cpu:1", "the list of devices 'cpu:0,,cpu:1' has an empty entry"},
    {"cpu:0,", "has an empty entry"},
    {"cpu:0,cpu:1,cpu:0", "device 'cpu:0' is named twice"},
    {"cpu:1,cpu:01", "device 'cpu:01' is named twice"},
};

TEST_EACH(good_lists_are_opened, COUNT_OF(good)) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count = 0;
    assert_ok(ls_devices_open(good[_i].list, 2, devices, &count));
    for (int i = 0; i < 4 && good[_i].names[i]; i++) {
        ck_assert_int_lt(i, count);
        ck_assert_str_eq(devices[i]->name, good[_i].names[i]);
        ck_assert_int_eq(devices[i]->threads, 2);
        ck_assert(devices[i]->host_memory);
    }
    ck_assert(count == 4 || !good[_i].names[count]);
    for (int i = 0; i < count; i++) ls_device_close(devices[i]);
}

TEST_EACH(bad_lists_are_refused, COUNT_OF(bad)) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES] = {NULL};
    int count = -7;
    assert_refused(ls_devices_open(bad[_i].list, 1, devices, &count), bad[_i].message);
    ck_assert(count == -7 && !devices[0]); /* outputs only on success */
}

TEST(the_limit_of_devices_holds) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    char list[1024] = "cpu:0";
    int count = 0;
    for (int i = 1; i < LS_MAX_LOCAL_DEVICES; i++)
        (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), ",cpu:%d", i);
    assert_ok(ls_devices_open(list, 0, devices, &count));
    ck_assert_int_eq(count, LS_MAX_LOCAL_DEVICES);
    ck_assert_int_eq(devices[0]->threads, 1);
    for (int i = 0; i < count; i++) ls_device_close(devices[i]);
    (void)snprintf(list + strlen(list), 16, ",cpu:5");
    assert_refused(ls_devices_open(list, 0, devices, &count), "device 'cpu:5' is one too many");
}

TEST(bad_numbers_of_threads_are_refused) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count = 0;
    assert_refused(ls_devices_open("2", -1, devices, &count), "threads_per_replica -1");
    assert_refused(ls_devices_open("2", 100000, devices, &count), "threads_per_replica 100000");
}

TEST(the_kinds_are_cpu_and_gpu) {
    char text[300] = "";
    ck_assert_str_eq(ls_device_kinds[0]->name, "cpu");
    ck_assert_ptr_null(ls_device_kinds[0]->unavailable);
    ls_device_kinds[0]->describe(text, sizeof(text));
    ck_assert_msg(strstr(text, "oneDNN ") != NULL, "%s", text);
    ck_assert_str_eq(ls_device_kinds[1]->name, "gpu");
    ck_assert_ptr_null(ls_device_kinds[2]);
}

TEST(memory_is_aligned_and_zeroed) {
    struct ls_device *device = open_device();
    const float numbers[3] = {1, 2, 3};
    float back[3] = {NAN, NAN, NAN};
    void *memory = NULL, *none = &memory;
    assert_ok(device->ops->allocate(device, sizeof(numbers), &memory));
    ck_assert_int_eq((uintptr_t)memory % 64, 0);
    assert_ok(device->ops->copy_out(device, back, memory, sizeof(back)));
    for (int i = 0; i < 3; i++) ck_assert(back[i] == 0);
    assert_ok(device->ops->copy_in(device, memory, numbers, sizeof(numbers)));
    assert_ok(device->ops->copy_out(device, back, memory, sizeof(back)));
    ck_assert_int_eq(memcmp(back, numbers, sizeof(back)), 0);
    device->ops->release(device, memory);
    ck_assert_int_eq(device->ops->allocate(device, SIZE_MAX, &none), LS_RESOURCE_EXHAUSTED);
    ck_assert_ptr_eq(none, &memory);
    ls_device_close(device);
    ls_device_close(NULL);
}

#if defined(__SSE__)
static void *halve_smallest(void *argument) {
    struct ls_device *device = argument;
    volatile float value = FLT_MIN;
    struct ls_thread_state before;
    assert_ok(device->ops->enter(device, &before));
    value = value / 2;
    bool flushed = value == 0;
    device->ops->leave(device, &before); /* and the thread is as it was */
    value = FLT_MIN;
    value = value / 2;
    return flushed && value != 0 ? device : NULL;
}

/* Only in threads that entered: the caller's arithmetic stays as it was. */
TEST(denormals_are_flushed_in_entered_threads) {
    struct ls_device *devices[LS_MAX_LOCAL_DEVICES];
    int count = 0;
    pthread_t thread;
    void *flushed = NULL;
    volatile float value = FLT_MIN;
    assert_ok(ls_devices_open("1", 1, devices, &count));
    ck_assert_int_eq(pthread_create(&thread, NULL, halve_smallest, devices[0]), 0);
    ck_assert_int_eq(pthread_join(thread, &flushed), 0);
    ck_assert_ptr_nonnull(flushed);
    value = value / 2;
    ck_assert(value != 0);
    ls_device_close(devices[0]);
}
#endif

TESTS("device")
