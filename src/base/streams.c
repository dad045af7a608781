/* Descriptors 0 to 2. open takes the lowest free one. */
#include "base/streams.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* gRPC 1.51 tries eventfd while it is loaded, and leaves descriptor 0 open where it got that: whoever reads standard
 * input would wait for ever. */
static bool input_is_event(void) {
    static const char event[] = "anon_inode:[eventfd]";
    char link[sizeof(event)] = "";
    return readlink("/proc/self/fd/0", link, sizeof(link) - 1) > 0 && !strcmp(link, event);
}

void ls_streams_open(void) {
    int fd;
    if (input_is_event()) (void)close(STDIN_FILENO);
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) continue;
    if (fd >= 0) (void)close(fd);
}
