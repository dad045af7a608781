/* Requests of the program to all workers (ls_request_fn). fit asks before each step. A thread of its own ("ls-request")
 * asks while this process waits for others, and all the time in a parameter server, which LS_STOP retires (serving.h).
 * A wait in which LS_STOP is heard gets LS_STOP_TIMEOUT to end by itself; the
 * first join gets none. Then it is given up: the abort flag says LS_CANCELLED, and the others are told. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_runtime;
struct ls_user_request;
/* Asks request from now on; it may be NULL. The runtime is borrowed and must have its cluster. */
ls_status ls_user_request_new(struct ls_runtime *runtime, ls_request_fn *request, void *context,
                              struct ls_user_request **user_request);
/* Ends the thread. */
void ls_user_request_free(struct ls_user_request *user_request);
/* A fit begins and asks request. A NULL request keeps the one from before. */
ls_status ls_user_request_begin(struct ls_user_request *user_request, ls_request_fn *request, void *context);
void ls_user_request_end(struct ls_user_request *user_request);
/* The greatest request since the last call. LS_STOP stays. fit calls it and carries the request to all workers with its
 * step. */
ls_request ls_user_request_take(struct ls_user_request *user_request);
/* Tells that all workers have agreed to stop, and do: no wait is given up. Or that they could not: each gives up its
 * waits, as if it had been asked itself. */
void ls_user_request_agree(struct ls_user_request *user_request, bool agreed);
/* The status of a call that has failed for good: of a loss LS_CANCELLED if this worker was asked to stop, and the
 * others are told, as after a wait that was given up. Keeps this thread's error. */
ls_status ls_user_request_end_loss(struct ls_user_request *user_request, ls_status status);
/* Checks between steps without a collective. Returns the abort flag's status, as after a loss. Outside of fit it
 * returns LS_CANCELLED if this worker is to stop, and tells the others. */
ls_status ls_user_request_check(struct ls_user_request *user_request);
