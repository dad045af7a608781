/* The standard streams of this process. */
#pragma once

/* Opens those that are closed, at /dev/null: a socket or a file that got such a number would receive what the process
 * prints. */
void ls_streams_open(void);
