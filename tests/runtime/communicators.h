/* Several communicators in one test: each of a thread of this process with its own TF_CONFIG on free localhost ports,
 * joined over the real cluster. Run under CK_FORK=no, since gRPC does not survive fork. */
#pragma once
#include <lockstep/lockstep.h>

#define MAX_MEMBERS 8

struct member;
typedef ls_status member_fn(struct member *member);
struct member {
    int rank, size;
    ls_communicator *communicator;
    void *context;
    /* afterwards: of fn and of the close, whichever came first */
    ls_status status;
    char error[1024];
};
struct members_options {
    int size;
    const char *transport; /* LOCKSTEP_TRANSPORT */
    ls_communication communication;
    double timeout; /* 0: 20 s */
    ls_log_fn *log; /* NULL: errors only, to stderr */
    void *log_context;
};
/* Starts all, runs fn in each, closes all and waits for all. */
void members_run(const struct members_options *options, member_fn *fn, void *context, struct member members[]);
/* As members_run, and asserts that every member succeeded. */
void members_run_ok(const struct members_options *options, member_fn *fn, void *context);
