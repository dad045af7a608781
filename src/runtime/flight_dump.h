/* Writes the record of a group's last collectives. */
#pragma once
#include "runtime/runtime.h"

/* After a failure, with its message in ls_error, which stays: writes the flight record into the folder of the setting,
 * or says how to get one. The first time only; from the thread that makes the calls, or when there are no more. */
void ls_flight_dump(struct ls_runtime *runtime);
