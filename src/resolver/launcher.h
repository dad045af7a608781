/* The word of one launcher's variables about this process, and the steps that their readers share. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_LAUNCHER_TEXT 200
#define LS_LAUNCHER_PORT 2222 /* of a task that has its host for itself, as TFJob gives it */

struct ls_launcher_place {
    char *host;
    int port;
};
struct ls_launcher {
    int rank, size;                   /* size 0: the launcher did not start this process */
    struct ls_launcher_place *places; /* [size]; NULL: the variables name no addresses of the others */
    char says[LS_LAUNCHER_TEXT];      /* "RANK=1 of WORLD_SIZE=4" */
    /* Without places: where rank 0 hands out the addresses; port 0: the variables do not say. */
    char meet_host[256]; /* "": this is rank 0, which is told its own name by no variable */
    int meet_port;
    char job[LS_LAUNCHER_TEXT]; /* a text that all of the job have and another job has not */
};
void ls_launcher_release(struct ls_launcher *launch);

/* The variable's text; NULL if it is not set or empty. */
const char *ls_launcher_variable(const char *name);
/* INVALID_ARGUMENT names the variable, its text and the range. */
ls_status ls_launcher_number(const char *name, int least, int most, int *value);
/* Sets *here where the variable counts those on this host: to whether all are. Not set, *here stays. */
ls_status ls_launcher_all_here(const struct ls_launcher *launch, const char *local_size, bool *here);
/* Reads this process' number and how many there are, and says both. Returns INVALID_ARGUMENT where only one of the two
 * variables is set, or a number is none. Neither: launch->size stays 0. */
ls_status ls_launcher_count(struct ls_launcher *launch, const char *rank, const char *size);
/* Gives rank its place. The host is copied. */
ls_status ls_launcher_put(struct ls_launcher *launch, int rank, const char *host, int port);
/* Rank 0 hands out the addresses at host and port (0: the port follows from job). The host is copied. */
void ls_launcher_meet(struct ls_launcher *launch, const char *host, int port, const char *job);
/* All places are on this host. The ports follow from a text that all of the job have and another job has not. */
ls_status ls_launcher_put_local(struct ls_launcher *launch, const char *job);
/* The index-th port of the job with that number: 61440 to 65535, above the ports that Linux gives to clients (the rule
 * of JAX's Slurm cluster). */
int ls_launcher_port(uint64_t job, int index);
/* Places whose names differ by the number before the first dot, or at the end: "job-0.svc", "job-1.svc". first is the
 * name of number 0, or any of them. Returns INVALID_ARGUMENT if the name has no number there. */
ls_status ls_launcher_put_numbered(struct ls_launcher *launch, const char *variable, const char *name, int port);
