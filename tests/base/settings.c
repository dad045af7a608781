/* Tests of base/settings: defaults, units, and one clear error for what does not parse. */
#include "base/settings.h"

#include <string.h>

#include "harness.h"

TEST(defaults) {
    struct ls_settings settings;
    (void)unsetenv("LOCKSTEP_DEVICES");
    assert_ok(ls_settings_read(&settings));
    ck_assert_double_eq(settings.join_timeout, 300);
    ck_assert_double_eq(settings.collective_timeout, 300);
    ck_assert_double_eq(settings.exit_timeout, 30);
    ck_assert_double_eq(settings.report_interval, 5);
    ck_assert_double_eq(settings.heartbeat_interval, 0.2);
    ck_assert_double_eq(settings.heartbeat_limit, 3);
    ck_assert_int_eq(settings.first_bucket, 1 << 20);
    ck_assert_int_eq(settings.bucket, 25 << 20);
    ck_assert_int_eq(settings.segment, 256 << 10);
    ck_assert_int_eq(settings.log_level, LS_LOG_INFO);
    ck_assert_str_eq(settings.devices, "auto");
    ck_assert_str_eq(settings.trace, "");
    ck_assert_int_eq(settings.flight_record, 1024);
    ck_assert_str_eq(settings.flight_record_folder, "");
}

TEST(values) {
    struct ls_settings settings;
    (void)setenv("LOCKSTEP_JOIN_TIMEOUT", "2.5", 1);
    (void)setenv("LOCKSTEP_BUCKET", "3G", 1);
    (void)setenv("LOCKSTEP_SEGMENT", "4096", 1);
    (void)setenv("LOCKSTEP_LOG", "DEBUG", 1);
    (void)setenv("LOCKSTEP_TRANSPORT", "tcp", 1);
    (void)setenv("LOCKSTEP_DEVICES", "cpu:0,cpu:1", 1);
    (void)setenv("LOCKSTEP_TRACE", "t.%r.json", 1);
    (void)setenv("LOCKSTEP_CUDA_SYNC", "1", 1);
    (void)setenv("LOCKSTEP_PLUGIN", "p.so", 1);
    (void)setenv("LOCKSTEP_EXIT_TIMEOUT", "", 1); /* empty is as good as absent */
    assert_ok(ls_settings_read(&settings));
    ck_assert_double_eq(settings.join_timeout, 2.5);
    ck_assert_int_eq(settings.transport, LS_TRANSPORT_TCP);
    ck_assert_double_eq(settings.exit_timeout, 30);
    ck_assert_int_eq(settings.bucket, INT64_C(3) << 30);
    ck_assert_int_eq(settings.segment, 4096);
    ck_assert_int_eq(settings.log_level, LS_LOG_DEBUG);
    ck_assert_str_eq(settings.devices, "cpu:0,cpu:1");
    ck_assert_str_eq(settings.trace, "t.%r.json");
    ck_assert(settings.cuda_sync);
    ck_assert_str_eq(settings.plugin, "p.so");
}

static const struct {
    const char *name, *value;
} bad[] = {
    {"LOCKSTEP_COLUMNS", "-1"},
    {"LOCKSTEP_REQUIRE_CLUSTER", "yes"},
    {"LOCKSTEP_JOIN_TIMEOUT", "soon"},
    {"LOCKSTEP_JOIN_TIMEOUT", "-1"},
    {"LOCKSTEP_JOIN_TIMEOUT", "0"},
    {"LOCKSTEP_COLLECTIVE_TIMEOUT", "inf"},
    {"LOCKSTEP_EXIT_TIMEOUT", "nan"},
    {"LOCKSTEP_REPORT_INTERVAL", "5s"},
    {"LOCKSTEP_HEARTBEAT_INTERVAL", "1.5"}, /* half the limit */
    {"LOCKSTEP_HEARTBEAT_LIMIT", "0.4"},
    {"LOCKSTEP_HEARTBEAT_LIMIT", "0"},
    {"LOCKSTEP_COLLECTIVE_TIMEOUT", "1e99"},
    {"LOCKSTEP_FLIGHT_RECORD", "0"},
    {"LOCKSTEP_FLIGHT_RECORD", "1K"},
    {"LOCKSTEP_FLIGHT_RECORD", "2000000"},
    {"LOCKSTEP_BUCKET", "25MB"},
    {"LOCKSTEP_BUCKET", "-1"},
    {"LOCKSTEP_BUCKET", "0"},
    {"LOCKSTEP_BUCKET", "M"},
    {"LOCKSTEP_FIRST_BUCKET", "99999999G"},
    {"LOCKSTEP_SEGMENT", "1.5M"},
    {"LOCKSTEP_SEGMENT", "0x10"},
    {"LOCKSTEP_LOG", "loud"},
    {"LOCKSTEP_LOG_FORMAT", "xml"},
    {"LOCKSTEP_TRANSPORT", "pigeon"},
    {"LOCKSTEP_TRANSPORT", "grpc"}, /* gone */
    {"LOCKSTEP_SEGMENT", "99999999999999999999999"},
    {"LOCKSTEP_DEVICE_TIMEOUT", "0"},
    {"LOCKSTEP_CUDA_SYNC", "on"},
    {"LOCKSTEP_CUDA_SYNC", "2"},
};

TEST_EACH(refused, COUNT_OF(bad)) {
    struct ls_settings settings, untouched;
    memset(&settings, 0x5A, sizeof(settings));
    memcpy(&untouched, &settings, sizeof(settings));
    (void)setenv(bad[_i].name, bad[_i].value, 1);
    assert_refused(ls_settings_read(&settings), bad[_i].name);
    ck_assert_msg(strstr(ls_error(), bad[_i].value) != NULL, "no value in: %s", ls_error());
    ck_assert_mem_eq(&settings, &untouched, sizeof(settings));
}

TEST(long_device_list) {
    struct ls_settings settings;
    char list[300];
    memset(list, 'c', sizeof(list) - 1);
    list[sizeof(list) - 1] = '\0';
    (void)setenv("LOCKSTEP_DEVICES", list, 1);
    assert_refused(ls_settings_read(&settings), "LOCKSTEP_DEVICES");
}

TEST(long_token) {
    struct ls_settings settings;
    char token[300];
    memset(token, 't', sizeof(token) - 1);
    token[sizeof(token) - 1] = '\0';
    (void)setenv("LOCKSTEP_TOKEN", token, 1);
    assert_refused(ls_settings_read(&settings), "LOCKSTEP_TOKEN");
    ck_assert_ptr_null(strstr(ls_error(), "tttt"));
}

TEST(described) {
    struct ls_settings settings;
    struct ls_setting_info info;
    size_t rows = 0;
    (void)setenv("LOCKSTEP_BUCKET", "2K", 1);
    assert_ok(ls_settings_read(&settings));
    for (; ls_settings_describe(&settings, rows, &info); rows++) {
        ck_assert_int_eq(strncmp(info.name, "LOCKSTEP_", 9), 0);
        ck_assert_str_ne(info.help, "");
        if (!strcmp(info.name, "LOCKSTEP_BUCKET")) ck_assert_str_eq(info.value, "2048");
        if (!strcmp(info.name, "LOCKSTEP_LOG")) ck_assert_str_eq(info.value, "info");
        if (!strcmp(info.name, "LOCKSTEP_TRANSPORT")) ck_assert_str_eq(info.value, "auto");
    }
    ck_assert_uint_ge(rows, 10);
    (void)setenv("LOCKSTEP_TOKEN", "a-token-of-some-length", 1);
    assert_ok(ls_settings_read(&settings));
    ck_assert_str_eq(settings.token, "a-token-of-some-length");
    for (rows = 0; ls_settings_describe(&settings, rows, &info); rows++)
        ck_assert_ptr_null(strstr(info.value, "a-token"));
}

TESTS("settings")
