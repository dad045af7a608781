/* A worker of a bare communicator that makes ten all-reduces; the rank SKIPPER leaves one out, the one of
 * number NUMBER. With names that differ ("named") the others' next call meets another one; without ("alike") the
 * skipper is done early. With RING; "auto": alike, with AUTO.
 *
 * usage: skip_call SKIPPER NUMBER named|alike|auto */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 10 };

static ls_status call_all(ls_communicator *communicator, int skipped, bool named) {
    ls_status status = LS_OK;
    for (int i = 0; i < CALLS && !status; i++) {
        float value = 1;
        char name[32] = "gradients";
        if (named) (void)snprintf(name, sizeof(name), "gradients of layer %d", i);
        if (i != skipped) status = ls_all_reduce(communicator, LS_ALL_REDUCE(name, &value, &value, 1));
    }
    return status;
}

int main(int argc, char **argv) {
    ls_communicator *communicator = NULL;
    if (argc != 4) return 2;
    ls_communication communication = strcmp(argv[3], "auto") == 0 ? LS_AUTO : LS_RING;
    ls_status status = ls_communicator_new(LS_STRATEGY(.communication = communication), &communicator);
    if (status) return ls_exit(status);
    int skipped = ls_rank(communicator) == atoi(argv[1]) ? atoi(argv[2]) : -1;
    status = call_all(communicator, skipped, strcmp(argv[3], "named") == 0);
    return ls_exit(ls_communicator_close(communicator, status));
}
