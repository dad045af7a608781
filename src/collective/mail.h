/* Messages from one rank to another: MPI_Send and MPI_Recv, torch's send and recv. */
#pragma once
#include "collective/group.h"

/* Returns when the bytes have left this rank, received or not. */
ls_status ls_mail_send(struct ls_group *group, const char *name, int to, ls_dtype dtype, const void *data,
                       size_t count);
/* The oldest message of that rank under this name. */
ls_status ls_mail_receive(struct ls_group *group, const char *name, int from, ls_dtype dtype, void *data, size_t count);
