/* A rendezvous: of each worker only its rank, the size and rank 0's address are known (torchrun, mpirun, AWS Batch).
 * Each other worker chooses its own port and tells it to rank 0, and rank 0 hands out all addresses when the last has
 * come. Then the spec is as if TF_CONFIG had listed them (torch's c10d store, horovodrun's rendezvous server). */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"
#include "base/settings.h"
#include "cluster/net/relay.h"
#include "cluster/security/credentials.h"
#include "resolver/cluster_view.h"

struct ls_rendezvous;
/* Fills in the addresses of spec's tasks; nothing happens where they are known. *kept: rank 0's, which answers on the
 * cluster's port who is started anew, and is freed by ls_rendezvous_server_free; NULL on the others. It waits for
 * LOCKSTEP_JOIN_TIMEOUT. DEADLINE_EXCEEDED names who is missing; INVALID_ARGUMENT: two workers have one rank, another
 * size or another job; UNAUTHENTICATED: another token or certificate. */
ls_status ls_rendezvous_meet(struct ls_cluster_view *spec, const struct ls_settings *settings, const struct ls_log *log,
                             struct ls_rendezvous **kept);

/* Rank 0's part. A thread ("ls-rendezvous") talks with who asks, for as long as rank 0 lives: a worker that is started
 * anew asks again, and gets the same addresses. */

/* credentials: taken over on success. spec, settings and log are borrowed. */
ls_status ls_rendezvous_server_new(struct ls_cluster_view *spec, const struct ls_settings *settings,
                                   const struct ls_log *log, struct ls_credentials *credentials,
                                   struct ls_rendezvous **rendezvous);
/* Waits until all have come and have been told. */
ls_status ls_rendezvous_server_collect(struct ls_rendezvous *rendezvous);
void ls_rendezvous_server_free(struct ls_rendezvous *rendezvous);
/* Takes fd, of which the ask is to be read. From the listener's thread. */
void ls_rendezvous_server_take(struct ls_rendezvous *rendezvous, int fd, struct ls_relay *relay);
