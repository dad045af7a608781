/* A parameter server in a session of asynchronous training, as rank 0 has told of it. One thread. */
#pragma once
#include "store/session_pushes.h"

/* Serves it to its end. */
ls_status ls_session_server_run(struct ls_session_pushes *server, struct ls_group *group,
                                const struct ls_session *session, const struct ls_session_target *target);
