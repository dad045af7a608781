/* What lockstep info prints: build, devices, kinds of communication, settings; and how AUTO chooses. Texts for people,
 * made anew at each call; the build's libraries come from the build system as LS_BUILD_LIBRARIES. */
#define _GNU_SOURCE
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "base/status.h"
#include "base/dtype.h"
#include "device/device.h"
#include "strategy/bare.h"

#ifndef LS_BUILD_LIBRARIES
#define LS_BUILD_LIBRARIES "libraries of unknown versions"
#endif
#ifdef __clang__
#define COMPILER __VERSION__ /* begins with the compiler's name */
#else
#define COMPILER "gcc " __VERSION__
#endif

/* A text that grows; finish hands it over. */
struct text {
    FILE *stream;
    char *data;
    size_t size;
};

static ls_status text_open(struct text *text) {
    *text = (struct text){0};
    text->stream = open_memstream(&text->data, &text->size);
    return text->stream ? LS_OK : ls_fail_memory("a text", sizeof(*text));
}

static ls_status text_finish(struct text *text, char **output) {
    bool bad = ferror(text->stream);
    if (fclose(text->stream) || bad) {
        free(text->data);
        return ls_fail_memory("a text", text->size);
    }
    *output = text->data;
    return LS_OK;
}

static void print_setting(FILE *to, const struct ls_setting_info *info) {
    (void)fprintf(to, "  %-28s %-10s %s (default %s)\n", info->name, info->value, info->help, info->default_text);
}

ls_status ls_tools_settings(char **text) {
    struct ls_settings settings;
    struct ls_setting_info info;
    struct text made;
    ls_status status = ls_settings_read(&settings);
    if (!status) status = text_open(&made);
    if (status) return status;
    for (size_t i = 0; ls_setting_describe(&settings, i, &info); i++) print_setting(made.stream, &info);
    return text_finish(&made, text);
}

static void print_device(FILE *to, const struct ls_device_kind *kind) {
    char about[256] = "";
    const char *reason = kind->unavailable ? kind->unavailable() : NULL;
    if (!reason && kind->describe) kind->describe(about, sizeof(about));
    (void)fprintf(to, "  %-6s %-4s %s\n", kind->name, reason ? "no" : "yes", reason ? reason : about);
}

ls_status ls_tools_devices(char **text) {
    static const char *const communication[][3] = {
        {"AUTO", "yes", "the same bits for every layout of replicas on workers"},
        {"RING", "yes", "ring between the workers"},
        {"NCCL", "no", "comes with the GPU plugin"},
    };
    struct text made;
    ls_status status = text_open(&made);
    if (status) return status;
    for (size_t i = 0; ls_device_kinds[i]; i++) print_device(made.stream, ls_device_kinds[i]);
    for (size_t i = 0; i < sizeof(communication) / sizeof(communication[0]); i++)
        (void)fprintf(made.stream, "  %-6s %-4s %s\n", communication[i][0], communication[i][1], communication[i][2]);
    return text_finish(&made, text);
}

ls_status ls_tools_build(char **text) {
    struct text made;
    ls_status status = text_open(&made);
    if (status) return status;
    (void)fprintf(made.stream, "%s, %s", COMPILER, LS_BUILD_LIBRARIES);
    return text_finish(&made, text);
}

ls_status ls_tools_explain(const ls_communicator *communicator, char **text) {
    struct text made;
    ls_status status = text_open(&made);
    if (status) return status;
    ls_group_explain(communicator->membership->group, made.stream);
    return text_finish(&made, text);
}

const char *ls_tools_transport(const ls_communicator *communicator, const char *collective) {
    const struct ls_group *group = communicator->membership->group;
    if (!strcmp(collective, "all-reduce")) return ls_communicator_transport(communicator);
    bool scatters = !strcmp(collective, "reduce-scatter"), in_memory = true;
    if (scatters || !strcmp(collective, "all-gather")) in_memory = ls_group_is_one_host(group);
    if (scatters && communicator->communication == LS_RING) in_memory = false;
    return in_memory ? ls_group_transport(group) : ls_group_links(group);
}

const char *ls_tools_algorithm(const ls_communicator *communicator, ls_dtype dtype, ls_compression compression,
                               size_t count) {
    if (communicator->communication == LS_RING) return "ring";
    enum ls_algorithm algorithm =
        ls_group_algorithm(communicator->membership->group, ls_dtype_size(dtype), count, compression);
    return ls_algorithm_info(algorithm)->name;
}

int ls_tools_host(const ls_communicator *communicator, int rank) {
    return ls_group_host(communicator->membership->group, rank);
}

bool ls_tools_compresses(const ls_communicator *communicator) {
    return ls_group_compresses(communicator->membership->group, communicator->communication);
}
