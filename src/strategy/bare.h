/* What a bare communicator is made of. */
#pragma once
#include "strategy/membership.h"

struct ls_communicator {
    struct ls_membership *membership;
};
