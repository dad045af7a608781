/* Messages from one rank to another: MPI_Send and MPI_Recv, torch's send and recv. */
#pragma once
#include "collective/group.h"

/* Returns when the bytes have left this rank, received or not. */
ls_status ls_mail_send(struct ls_group *group, const char *name, int to, ls_dtype dtype, const void *data,
                       size_t count);
/* A message of count elements. */
struct ls_mail_letter {
    const char *name;
    int from;
    ls_dtype dtype;
    void *data;
    size_t count;
};
/* The oldest message of that rank under this name. */
ls_status ls_mail_receive(struct ls_group *group, const char *name, int from, ls_dtype dtype, void *data, size_t count);
/* As ls_mail_receive, but *received may be false at the end: another message has come since the last wait that ended
 * so, or the descriptor wake can be read. It waits for nothing where wake is -1 or the letter is one from this rank to
 * itself. A letter of which some bytes are in its place is waited for. */
ls_status ls_mail_try_receive(struct ls_group *group, const struct ls_mail_letter *letter, int wake, bool *received);
