/* Messages from one rank to another: MPI_Send and MPI_Recv, torch's send and recv. */
#pragma once
#include "collective/group.h"

/* Returns when the bytes have left this rank, received or not. */
ls_status ls_mail_send(struct ls_group *group, const ls_send_options *call);
/* The oldest message of that rank under this name. */
ls_status ls_mail_receive(struct ls_group *group, const ls_receive_options *call);
/* As ls_mail_receive, but *received may be false at the end: another message has come since the last wait that ended
 * so, or the descriptor wake can be read. It waits for nothing where wake is -1 or the message is one from this rank to
 * itself. A message of which some bytes are in its place is waited for. */
ls_status ls_mail_try_receive(struct ls_group *group, const ls_receive_options *call, int wake, bool *received);
