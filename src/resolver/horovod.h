/* The reader of horovodrun's variables. */
#pragma once
#include "resolver/launcher.h"

ls_status ls_horovod_read(struct ls_launcher *launch);
