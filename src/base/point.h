/* Named points of a training and of its recovery, for tests that kill or stop a worker at each: a program that is
 * linked with the library's parts and defines ls_reached itself is told when one is reached, in whatever thread that
 * is, also with a lock held. In the library it does nothing. */
#pragma once

void ls_reached(const char *point);
