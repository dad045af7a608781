/* Links between ranks that are threads of one process. */
#pragma once
#include "collective/link/transport.h"

/* Two ends of one in-process link, for ranks that are threads of one process. */
ls_status ls_local_link_pair(struct ls_link *ends[2]);
