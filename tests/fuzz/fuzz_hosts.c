/* A list of hosts from any text: it is a list of names that no remote shell takes for an option, or one error. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "lockstep/tools.h"

static void require(bool condition) {
    if (!condition) abort();
}

static void check(const ls_tools_slots *hosts, int count) {
    require(count >= 1);
    for (int i = 0; i < count; i++) {
        require(hosts[i].slots >= 1 && hosts[i].slots <= 1024);
        require(hosts[i].name[0] && hosts[i].target[0] != '-' && hosts[i].name[0] != '-');
        require(!strpbrk(hosts[i].target, " \t\r\n;'\"$`\\|&<>()#,=/[]"));
        size_t name = strlen(hosts[i].name), target = strlen(hosts[i].target);
        require(target >= name && !strcmp(hosts[i].target + target - name, hosts[i].name));
        require(target == name || hosts[i].target[target - name - 1] == '@');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_tools_slots *hosts;
    int count;
    char *text = ls_alloc(size + 1);
    if (!text || size > 4096) {
        ls_free(text);
        return 0;
    }
    memcpy(text, data, size);
    if (!ls_tools_hosts(text, NULL, &hosts, &count)) {
        check(hosts, count);
        ls_memory_free(hosts);
    } else {
        require(ls_error()[0] != 0);
    }
    ls_free(text);
    return 0;
}
