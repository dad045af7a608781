/* Named points of a training and of its recovery, for tests that kill or stop a worker at each. A program that is
 * linked with the library's parts may define ls_reached itself. It is then called at each point, in any thread, also
 * with a lock held. The library's own does nothing. */
#pragma once

void ls_reached(const char *point);
