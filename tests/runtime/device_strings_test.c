/* TensorFlow's device strings, of a process alone and of a task: a table, and strings that are made up. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "property/draw.h"
#include "runtime/device_strings.h"

static const struct ls_cluster_view worker_1 = {.cluster_mode = true, .type = LS_TASK_WORKER, .index = 1}, alone = {0};

static const struct {
    const struct ls_cluster_view *own;
    const char *list, *plain, *error; /* one of the two */
} rows[] = {
    {NULL, "", "", NULL},
    {NULL, "auto", "auto", NULL},
    {NULL, "gpu:0, gpu:1", "gpu:0,gpu:1", NULL},
    {NULL, "cpu:0,,", "cpu:0,,", NULL}, /* for ls_devices_open to refuse */
    {NULL, "/gpu:0,/gpu:1", "gpu:0,gpu:1", NULL},
    {&alone, "/device:GPU:1 , /CPU:0", "GPU:1,CPU:0", NULL},
    {&alone, "/job:localhost/replica:0/task:0/device:CPU:0", "CPU:0", NULL},
    {&worker_1, "/job:worker/replica:0/task:1/device:GPU:3,cpu:0", "GPU:3,cpu:0", NULL},
    {&worker_1, "/JOB:Worker/task:1/gpu:0", "gpu:0", NULL},
    {&worker_1, "/job:worker/task:0/gpu:0", NULL, "is of another task: this one is worker:1"},
    {&worker_1, "/job:ps/task:1/gpu:0", NULL, "device '/job:ps/task:1/gpu:0' is of another task"},
    {&worker_1, "/job:localhost/gpu:0", NULL, "is of another task"},
    {&worker_1, "/replica:1/gpu:0", NULL, "is of another task"},
    {NULL, "/task:1/gpu:0", NULL, "this one is a process alone"},
    {NULL, "/", NULL, "device '/' is not of the form /gpu:0"},
    {NULL, "//gpu:0", NULL, "device '//gpu:0' is not of the form"},
    {NULL, "/gpu", NULL, "is not of the form"},
    {NULL, "gpu:0,/job:worker", NULL, "device '/job:worker' is not of the form"},
    {NULL, "/gpu:0/gpu:1", NULL, "is not of the form"},
};

TEST_EACH(a_table_of_lists_is_read, COUNT_OF(rows)) {
    char list[128];
    (void)snprintf(list, sizeof(list), "%s", rows[_i].list);
    ls_status status = ls_device_strings_read(rows[_i].own, list);
    ck_assert_int_eq(status, rows[_i].error ? LS_INVALID_ARGUMENT : LS_OK);
    if (status)
        ck_assert_msg(strstr(ls_error(), rows[_i].error) != NULL, "%s", ls_error());
    else
        ck_assert_str_eq(list, rows[_i].plain);
}

/* Any order and any subset of what names this task leads to the device. */
TEST(parts_come_in_any_order) {
    struct draw draw = draw_from(first_seed(), 0);
    static const char *const parts[] = {"/job:worker", "/replica:0", "/task:1", "/device:GPU:7"};
    for (int i = 0; i < 200; i++) {
        char list[256] = "";
        int entries = 1 + (int)draw_below(&draw, 3), device;
        for (int e = 0; e < entries; e++) {
            bool used[4] = {false};
            if (e) strcat(list, ",");
            for (device = 0; !device;) {
                size_t which = draw_below(&draw, 4);
                if (!used[which]) strcat(list, parts[which]);
                used[which] = true;
                device = used[3] && draw_once_in(&draw, 2);
            }
        }
        const char *wanted[] = {"GPU:7", "GPU:7,GPU:7", "GPU:7,GPU:7,GPU:7"};
        assert_ok(ls_device_strings_read(&worker_1, list));
        ck_assert_str_eq(list, wanted[entries - 1]);
    }
}

TESTS("device strings")
