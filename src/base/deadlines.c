/* The table of deadlines, in the order in which a worker meets them. A row: name, the setting or the constant that
 * limits it, what is waited for, what happens then. */
#include "base/deadlines.h"

#include <stddef.h>

#define SETTING(name, field) name, offsetof(struct ls_settings, field), 0
#define FIXED(limit)         NULL, 0, limit
#define ENDS                 "an error that names who is missing; exit status 138"

static const struct deadline {
    const char *name, *setting;
    size_t offset; /* of the setting's value */
    int64_t limit; /* where there is no setting */
    const char *waits, *then;
} table[] = {
    {"own name", FIXED(LS_OWN_NAME_TIMEOUT), "the own address in TF_CONFIG to be resolved",
     "the worker listens on all interfaces, and says so"},
    {"join", SETTING("LOCKSTEP_JOIN_TIMEOUT", join_timeout), "a starting worker for all others to come", ENDS},
    {"connect", FIXED(LS_CONNECT_TIMEOUT),
     "one address of a worker to take the connection, and with TLS to shake hands",
     "its next address; after the last a pause of 0.01 to 1 s, then all again"},
    {"hello", FIXED(LS_HELLO_TIMEOUT), "the answer to a Hello or to a data connection", "it is dialled again"},
    {"link", FIXED(LS_LINK_TIMEOUT), "a data connection to a worker that cannot be dialled",
     "an error that names both workers; a recovery begins"},
    {"first bytes", FIXED(LS_FIRST_BYTES_TIMEOUT),
     "an accepted connection to say what it is and to prove to be a worker's", "it is closed"},
    {"first hello", FIXED(LS_FIRST_HELLO_TIMEOUT), "an accepted control stream to prove to be a worker's",
     "the stream is closed"},
    {"idle connection", FIXED(LS_IDLE_TIMEOUT),
     "an accepted gRPC connection to finish its handshake and to carry a call", "it is closed"},
    {"refused", FIXED(LS_REFUSED_TIMEOUT), "who was refused to read why and close its stream", "it is closed"},
    {"rival", FIXED(LS_RIVAL_TIMEOUT), "an earlier process of a task to be seen closed when another one says Hello",
     "an error on both: two processes are one task; exit status 2"},
    {"difference", FIXED(LS_TELL_TIMEOUT), "all workers to hear of a difference that ends the join",
     "the worker ends without having told all; exit status 2"},
    {"silence", SETTING("LOCKSTEP_HEARTBEAT_LIMIT", heartbeat_limit), "a sign of life of each worker",
     "it is lost: an error that names it on all others; exit status 138"},
    {"collective", SETTING("LOCKSTEP_COLLECTIVE_TIMEOUT", collective_timeout),
     "one collective, or one exchange between all workers", ENDS},
    {"device", SETTING("LOCKSTEP_DEVICE_TIMEOUT", device_timeout), "what is queued on a GPU to be done",
     "an error that names the GPU; exit status 138"},
    {"bucket", SETTING("LOCKSTEP_COLLECTIVE_TIMEOUT", collective_timeout),
     "a GPU to compute and copy a bucket of gradients, or NCCL to connect the GPUs of all workers or to add",
     "an error that names it; exit status 138"},
    {"abort", FIXED(LS_ABORT_TIMEOUT), "NCCL to abort its communicator, after a loss or at the end",
     "it is left behind with the memory that it uses, as the log says once; the worker goes on"},
    {"data", SETTING("LOCKSTEP_DATA_TIMEOUT", data_timeout), "the examples of one step to be read and mapped",
     "an error that names the example; exit status 138"},
    {"reading", FIXED(LS_READING_TIMEOUT), "after 'data', the threads that still read, before the error is told",
     "they are left behind, with the dataset"},
    {"rejoin", SETTING("LOCKSTEP_REJOIN_TIMEOUT", rejoin_timeout),
     "the others, from a loss on, for the lost workers to be started anew",
     "elastic and enough are left: they go on; else " ENDS},
    {"parameter servers", SETTING("LOCKSTEP_PS_WAIT", servers_wait),
     "workers that are all there, for the parameter servers", "they train without those that are missing"},
    {"gone", SETTING("LOCKSTEP_HEARTBEAT_LIMIT", heartbeat_limit),
     "three times: a parameter server that was frozen or cut off, and whose workers' hosts say that nobody listens "
     "there",
     "the workers have left: an error that names them; exit status 138"},
    {"deputy", FIXED(LS_DEPUTY_TIMEOUT), "a worker that starts, to reach the lowest ranks",
     "it joins with the streams that it has"},
    {"widen", FIXED(LS_WIDEN_INTERVAL), "after a loss, a lower worker that leads to be reached",
     "it dials twice as many of the lowest ranks"},
    {"fading", FIXED(LS_FADING_TIMEOUT),
     "elastic: the connection to a lost worker to be closed by its kernel, and on while its host answers",
     "it is not known whether the worker has ended: where too few are left, the others wait for it"},
    {"settle", FIXED(LS_SETTLE_TIMEOUT), "elastic: a worker that comes in to say what it has",
     "the others go on without it, and ask again later"},
    {"quorum", FIXED(LS_QUORUM_TIMEOUT), "elastic: after 'rejoin', enough workers to be there", ENDS},
    {"forming", SETTING("LOCKSTEP_COLLECTIVE_TIMEOUT", collective_timeout),
     "a proposed generation for all to have its links and its state", "its connections are made anew"},
    {"checkpoint", SETTING("LOCKSTEP_COLLECTIVE_TIMEOUT", collective_timeout),
     "a finished training for its last checkpoint to be written",
     "an error that names step and folder; exit status 138"},
    {"training", SETTING("LOCKSTEP_JOIN_TIMEOUT", join_timeout),
     "TF_CONFIG's evaluator, for its training to use the checkpoint folder",
     "it ends: with 138 where there was no checkpoint, else with 0"},
    {"killed training", SETTING("LOCKSTEP_REJOIN_TIMEOUT", rejoin_timeout),
     "who watches a checkpoint folder, for the training that was killed to come back", "it ends; exit status 138"},
    {"cause", FIXED(LS_CAUSE_TIMEOUT), "the cause, after a connection broke or a call differs",
     "what was seen is the error, without the cause"},
    {"naming", FIXED(LS_NAMING_TIMEOUT), "the name of a lost worker, after NCCL has heard of the loss",
     "the error has NCCL's words alone"},
    {"stall", FIXED(LS_STALL_TIMEOUT), "with more than eight workers, one collective, before the others are asked",
     "each compares the call with its own: unlike calls are an error that names both; else the wait goes on"},
    {"exit", SETTING("LOCKSTEP_EXIT_TIMEOUT", exit_timeout), "a finished worker for the others to finish", ENDS},
    {"goodbye", FIXED(LS_GOODBYE_TIMEOUT), "the others to read that this worker leaves in order, and to leave",
     "it leaves"},
    {"last word", FIXED(LS_LAST_WORD_TIMEOUT), "the others to read why this worker failed", "it ends"},
    {"stop", FIXED(LS_STOP_TIMEOUT),
     "a wait for other workers, or for data, to end after this one was asked to stop (SIGTERM)",
     "it is given up, the last committed state is saved and the others are told; exit status 143"},
    {"stop of a server", SETTING("LOCKSTEP_STOP_GRACE", stop_grace),
     "a parameter server that was asked to stop (SIGTERM), for its workers to leave",
     "it leaves them, and is lost to them; exit status 143"},
    {"top", FIXED(LS_TOP_TIMEOUT), "a worker to answer lockstep top", "the table says so"},
    {"request", FIXED(LS_REQUEST_TIMEOUT), "a caller of LOCKSTEP_HTTP to ask, and to take the answer", "it is closed"},
    {"post", FIXED(LS_POST_TIMEOUT), "Kubeflow's status server to answer",
     "a warning; training goes on meanwhile, and the next status is told all the same"},
    {"last post", FIXED(LS_LAST_POST_TIMEOUT), "a finished training's last status to be told to Kubeflow",
     "a warning; the training ends"},
};
#define DEADLINE_COUNT (sizeof(table) / sizeof(table[0]))

bool ls_deadlines_describe(const struct ls_settings *settings, size_t index, struct ls_deadline_info *info) {
    if (index >= DEADLINE_COUNT) return false;
    const struct deadline *deadline = &table[index];
    const void *value = (const char *)settings + deadline->offset;
    double seconds = deadline->setting ? *(const double *)value : (double)deadline->limit / (double)LS_SECOND;
    *info = (struct ls_deadline_info){deadline->name, deadline->setting, seconds, deadline->waits, deadline->then};
    return true;
}
