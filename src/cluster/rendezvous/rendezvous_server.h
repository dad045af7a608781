/* Rank 0's part of a rendezvous. A thread ("ls-rendezvous") talks with who asks, for as long as rank 0 lives: a worker
 * that is started anew asks again, and gets the same addresses. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"
#include "base/settings.h"
#include "cluster/net/relay.h"
#include "cluster/security/credentials.h"
#include "resolver/cluster_view.h"

struct ls_rendezvous;
/* credentials: taken over on success. spec, settings and log are borrowed. */
ls_status ls_rendezvous_server_new(struct ls_cluster_view *spec, const struct ls_settings *settings,
                                   const struct ls_log *log, struct ls_credentials *credentials,
                                   struct ls_rendezvous **rendezvous);
/* Waits until all have come and have been told. */
ls_status ls_rendezvous_server_collect(struct ls_rendezvous *rendezvous);
void ls_rendezvous_server_free(struct ls_rendezvous *rendezvous);
/* Takes fd, of which the ask is to be read. From the listener's thread. */
void ls_rendezvous_server_take(struct ls_rendezvous *rendezvous, int fd, struct ls_relay *relay);
