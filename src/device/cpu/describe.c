/* The description of the CPU device for lockstep info. */
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "device/cpu/cpu.h"

/* The value of a "model name : ..." line; false for any other line. */
static bool read_model(const char *line, char *model, size_t size) {
    if (strncmp(line, "model name", 10)) return false;
    const char *value = strchr(line, ':');
    if (!value) return false;
    value += 1 + strspn(value + 1, " \t");
    (void)snprintf(model, size, "%.*s", (int)strcspn(value, "\n"), value);
    return true;
}

static void find_model(char *model, size_t size) {
    char line[256];
    (void)snprintf(model, size, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    while (fgets(line, sizeof(line), file))
        if (read_model(line, model, size)) break;
    (void)fclose(file);
}

void ls_cpu_describe(char *text, size_t size) {
    char model[128], library[96];
    find_model(model, sizeof(model));
    ls_gemm_describe(library, sizeof(library));
    int processors = ls_thread_processors();
    (void)snprintf(text, size, "%s, %d processor%s, %s", model, processors, processors == 1 ? "" : "s", library);
}
