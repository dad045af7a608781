/* Texts of lockstep info and settings: build, devices, kinds of communication, settings, deadlines, and the choices of
 * AUTO. They are for people and made anew at each call. The build's libraries come from the build system as
 * LS_BUILD_LIBRARIES. */
#define _GNU_SOURCE
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadlines.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/need.h"
#include "base/settings.h"
#include "base/text.h"
#include "collective/algorithm.h"
#include "collective/collectives.h"
#include "collective/tuner.h"
#include "device/device.h"
#include "device/gpu.h"
#include "runtime/communicator.h"
#include "base/plain.h"

#ifndef LS_BUILD_LIBRARIES
#define LS_BUILD_LIBRARIES "libraries of unknown versions"
#endif
#ifdef __clang__
#define COMPILER __VERSION__ /* begins with the compiler's name */
#else
#define COMPILER "gcc " __VERSION__
#endif

static const char *origin(const struct ls_setting_info *info) {
    return info->given ? "environment" : "default";
}

/* Deadlines of the caller's, beside those of the settings. */
struct more {
    const ls_tools_deadline *rows;
    size_t count;
};
typedef void print_settings_fn(FILE *to, const struct ls_settings *settings, struct more more);
typedef void print_deadline_fn(FILE *to, const ls_tools_deadline *deadline, bool first);

static ls_status tell_settings(print_settings_fn *print, struct more more, char **text) {
    struct ls_settings settings;
    ls_status status = ls_settings_read(&settings);
    return status ? status : LS_TEXT(out, print(out, &settings, more), "a text", text);
}

static void print_settings(FILE *to, const struct ls_settings *settings, struct more more) {
    struct ls_setting_info info;
    (void)more;
    (void)fprintf(to, "  %-27s %-10s %-5s  %-11s  %s\n", "name", "value", "unit", "from", "meaning");
    for (size_t i = 0; ls_settings_describe(settings, i, &info); i++)
        (void)fprintf(to, "  %-27s %-10s %-5s  %-11s  %s (default %s)\n", info.name, info.value, info.unit,
                      origin(&info), info.help, info.default_text);
}

ls_status ls_tools_settings(char **text) {
    LS_NEED(text);
    return tell_settings(print_settings, (struct more){0}, text);
}

static void print_deadline(FILE *to, const ls_tools_deadline *deadline, bool first) {
    if (first) (void)fprintf(to, "  %-16s %7s  %-27s  %s\n", "name", "seconds", "set by", "waits for: then");
    (void)ls_plain_print(to, "  %-16s %7g  %-27s  %s: %s\n", deadline->name, deadline->seconds,
                         deadline->setting ? deadline->setting : "-", deadline->waits, deadline->then);
}

static void each_deadline(FILE *to, const struct ls_settings *settings, struct more more, print_deadline_fn *print) {
    struct ls_deadline_info info;
    size_t rows = 0;
    for (; ls_deadlines_describe(settings, rows, &info); rows++) {
        const ls_tools_deadline row = {info.name, info.setting, info.seconds, info.waits, info.then};
        print(to, &row, rows == 0);
    }
    for (size_t i = 0; i < more.count; i++) print(to, &more.rows[i], false);
}

static void print_deadlines(FILE *to, const struct ls_settings *settings, struct more more) {
    each_deadline(to, settings, more, print_deadline);
}

ls_status ls_tools_deadlines(const ls_tools_deadline *more, size_t count, char **text) {
    LS_NEED(text);
    if (count) LS_NEED(more);
    return tell_settings(print_deadlines, (struct more){more, count}, text);
}

static void put_setting(FILE *to, const struct ls_setting_info *info, bool first) {
    ls_json_print(to, "%-s{'name': %s, 'value': %s, 'unit': %s, 'from': %s, 'default': %s, 'help': %s}",
                  first ? "" : ", ", info->name, info->value, info->unit, origin(info), info->default_text, info->help);
}

static void put_deadline(FILE *to, const ls_tools_deadline *deadline, bool first) {
    ls_json_print(to, "%-s{'name': %s, 'setting': %s, 'seconds': %g, 'waits': %s, 'then': %s}", first ? "" : ", ",
                  deadline->name, deadline->setting, deadline->seconds, deadline->waits, deadline->then);
}

static void put_settings(FILE *to, const struct ls_settings *settings, struct more more) {
    struct ls_setting_info info;
    (void)fputs("{\"settings\": [", to);
    for (size_t i = 0; ls_settings_describe(settings, i, &info); i++) put_setting(to, &info, i == 0);
    (void)fputs("], \"deadlines\": [", to);
    each_deadline(to, settings, more, put_deadline);
    (void)fputs("]}", to);
}

ls_status ls_tools_settings_json(const ls_tools_deadline *more, size_t count, char **json) {
    LS_NEED(json);
    if (count) LS_NEED(more);
    return tell_settings(put_settings, (struct more){more, count}, json);
}

/* A name, whether it is there, and what there is to say: lines after the first are indented. */
static void print_row(FILE *to, const char *name, bool there, const char *about) {
    (void)fprintf(to, "  %-6s %-4s ", name, there ? "yes" : "no");
    for (; *about; about++)
        if (*about == '\n' && about[1])
            (void)fputs("\n              ", to);
        else if (*about != '\n')
            (void)fputc(*about, to);
    (void)fputc('\n', to);
}

static void print_device(FILE *to, const struct ls_device_kind *kind) {
    char about[8192] = "";
    const char *reason = kind->unavailable ? kind->unavailable() : NULL;
    if (!reason && kind->describe) kind->describe(about, sizeof(about));
    print_row(to, kind->name, !reason, reason ? reason : about);
}

static void print_nccl(FILE *to) {
    char about[64];
    const char *reason = "";
    const struct ls_device_group_ops *group = ls_gpu_group(&reason);
    int version = group ? group->version() : 0;
    (void)snprintf(about, sizeof(about), "between GPUs; version %d.%d.%d", version / 10000, version / 100 % 100,
                   version % 100);
    print_row(to, "NCCL", group, group ? about : reason);
}

static void print_devices(FILE *to) {
    for (size_t i = 0; ls_device_kinds[i]; i++) print_device(to, ls_device_kinds[i]);
    print_row(to, "AUTO", true, "the same bits for every layout of replicas on workers");
    print_row(to, "RING", true, "ring between the workers");
    print_nccl(to);
}

ls_status ls_tools_devices(char **text) {
    LS_NEED(text);
    return LS_TEXT(out, print_devices(out), "a text", text);
}

ls_status ls_tools_build(char **text) {
    LS_NEED(text);
    return LS_TEXT(out, fprintf(out, "%s, %s", COMPILER, LS_BUILD_LIBRARIES), "a text", text);
}

ls_status ls_tools_explain(const ls_communicator *communicator, char **text) {
    LS_NEED(communicator, text);
    return LS_TEXT(out, ls_tuner_explain(communicator->ranks->group, out), "a text", text);
}

const char *ls_tools_transport(const ls_communicator *communicator, const char *collective) {
    LS_NEED_OR(NULL, communicator, collective);
    const struct ls_group *group = communicator->ranks->group;
    if (!strcmp(collective, "all-reduce")) return ls_communicator_transport(communicator);
    bool scatters = !strcmp(collective, "reduce-scatter"), in_memory = true;
    if (!strcmp(collective, "send-receive")) in_memory = false;
    if (scatters || !strcmp(collective, "all-gather") || !strcmp(collective, "all-to-all"))
        in_memory = ls_group_is_one_host(group);
    if (scatters && communicator->runtime->communication == LS_RING) in_memory = false;
    return in_memory ? ls_group_transport(group) : ls_group_links(group);
}

const char *ls_tools_algorithm(const ls_communicator *communicator, ls_dtype dtype, ls_compression compression,
                               size_t count) {
    LS_NEED_OR(NULL, communicator);
    if (communicator->runtime->communication == LS_RING) return "ring";
    enum ls_algorithm algorithm =
        ls_tuner_algorithm(communicator->ranks->group, ls_dtype_size(dtype), count, compression);
    return ls_algorithm_info(algorithm)->name;
}

ls_status ls_tools_sha256(const void *data, size_t size, char hex[65]) {
    LS_NEED(data, hex);
    return ls_digest_sha256(data, size, hex);
}

int ls_tools_host(const ls_communicator *communicator, int rank) {
    LS_NEED_OR(0, communicator);
    bool there = rank >= 0 && rank < communicator->ranks->size;
    return there ? ls_group_host(communicator->ranks->group, rank) : -1;
}

bool ls_tools_compresses(const ls_communicator *communicator) {
    LS_NEED_OR(false, communicator);
    return ls_group_all_reduce_compresses(communicator->ranks->group, communicator->runtime->communication);
}
