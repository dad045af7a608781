/* Writing down what a group's last collectives were. */
#pragma once
#include "strategy/membership.h"

/* After a failure, with its message in ls_error, which stays: writes the flight record into the folder of the setting,
 * or says how to get one. The first time only; from the thread that makes the calls, or when there are no more. */
void ls_membership_dump(struct ls_membership *membership);
