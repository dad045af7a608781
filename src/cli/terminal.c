/* The terminal, as the environment and the system tell of it. */
#define _GNU_SOURCE
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool ls_terminal_is_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strcasestr(value, "UTF-8") || strcasestr(value, "utf8");
    }
    return false;
}

void ls_terminal_size(int *columns, int *lines) {
    struct winsize size;
    bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *columns = known ? size.ws_col : 0;
    *lines = known ? size.ws_row : 0;
}

int ls_exit_text(ls_status status, char *text) {
    if (!status && text) (void)fputs(text, stdout);
    ls_memory_free(text);
    return ls_exit(status);
}
