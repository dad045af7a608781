/* Workers of a cluster as threads of one process, on free ports of 127.0.0.1. gRPC does not survive fork: the process
 * that runs Check's tests never starts one; the process of each test does. */
#pragma once
#include <lockstep/lockstep.h>
#include <pthread.h>

#include "cluster/cluster.h"
#include "collective/link/link_source.h"

#define MAX_TEST_WORKERS 16

struct test_worker;
typedef void test_body(struct test_worker *worker);

struct test_worker {
    /* in */
    int rank, size;
    char tf_config[2048];
    const char *long_config; /* in its place; NULL: none */
    const char *version;
    const char *token, *token_file;                                                           /* default: none */
    char tls_certificate[LS_SETTING_TEXT], tls_key[LS_SETTING_TEXT], tls_ca[LS_SETTING_TEXT]; /* default: none */
    enum ls_transport transport; /* default: what the environment says */
    double delay;                /* seconds before the start */
    double join_timeout;         /* default 20 s */
    double exit_timeout;         /* default 10 s */
    double heartbeat_limit;      /* default: what the environment says; the interval is a tenth of it */
    const char *elastic;         /* default: not */
    double rejoin_timeout;       /* default: what the environment says */
    test_body *body;             /* what to do once joined; may set leave_with */
    void *context;
    ls_status leave_with;
    /* out */
    ls_status joined, left;
    char join_error[1024], leave_error[1024];
    char log[16384];
    double join_seconds;
    /* while it runs */
    struct ls_cluster *cluster;
    struct ls_abort *abort;
    struct ls_settings settings;
    pthread_t thread;
    pthread_mutex_t log_mutex;
};

/* Ports that were free a moment ago. */
void test_ports(int *ports, int count);
/* Fills workers for a cluster of count on these ports. */
void test_workers(struct test_worker *workers, int count, const int *ports);
/* The TF_CONFIG of one task of a cluster whose worker list is given as JSON ("\"h:1\", \"h:2\""). */
void test_config(char *text, size_t size, const char *list, int index);
/* Joins, runs the body, leaves, in the calling thread. */
void test_worker_run(struct test_worker *worker);
void test_worker_start(struct test_worker *worker);
void test_worker_wait(struct test_worker *worker);
/* Starts all and waits for all. */
void test_workers_run(struct test_worker *workers, int count);
/* Waits until the worker, which runs, has said these words; false after limit seconds. */
bool test_wait_log(struct test_worker *worker, const char *words, double limit);
/* Waits until the abort flag is raised; seconds that it took, or -1 after limit seconds. */
double test_wait_abort(struct ls_abort *abort, double limit);
/* The number of entries of a folder, with . and .. */
int test_count_entries(const char *folder);
/* The same of one of /proc/self, when they have become as few as wanted, or after 5 s. */
int test_settled(const char *folder, int wanted);

/* Takes the link at a place of the source, which comes within 5 s. */
struct ls_link *test_take_link(struct ls_link_source *source, int rank);
/* One byte over a link; -1: none has come within 5 s. */
void test_send_rank(struct ls_link *link, int rank);
int test_receive_rank(struct ls_link *link);
