/* Threads as processes, each with a communicator. */
#include "runtime/communicators.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "ports.h"

struct starting {
    const struct members_options *options;
    struct member *member;
    member_fn *fn;
    const char *list; /* JSON, of addresses */
};

static void quiet(void *context, ls_log_level level, const char *line) {
    (void)context;
    if (level == LS_LOG_ERROR) (void)fprintf(stderr, "# %s\n", line);
}

static void *member_thread(void *argument) {
    const struct starting *starting = argument;
    struct member *member = starting->member;
    char config[1024];
    (void)snprintf(config, sizeof(config),
                   "{\"cluster\":{\"worker\":[%s]},\"task\":{\"type\":\"worker\",\"index\":%d}}", starting->list,
                   member->rank);
    double timeout = starting->options->timeout > 0 ? starting->options->timeout : 20;
    member->status =
        ls_communicator_new(LS_STRATEGY(.communication = starting->options->communication, .timeout_seconds = timeout,
                                        .tf_config = member->size > 1 ? config : "{}",
                                        .log = starting->options->log ? starting->options->log : quiet,
                                        .log_context = starting->options->log_context),
                            &member->communicator);
    if (!member->status) member->status = ls_communicator_close(member->communicator, starting->fn(member));
    (void)snprintf(member->error, sizeof(member->error), "%s", member->status ? ls_error() : "");
    return NULL;
}

/* AUTO measures all algorithms as a cluster begins, which takes longer than most tests: so only clusters of two have
 * it.
 */
static const char *algorithm_of(const struct members_options *options) {
    static const char *const over_links[] = {"exchange", "direct", "halving-doubling"};
    if (options->size <= 2 || !options->transport) return "auto";
    return strcmp(options->transport, "shm") == 0 ? "shared" : over_links[options->size % 3];
}

void members_run(const struct members_options *options, member_fn *fn, void *context, struct member members[]) {
    int ports[MAX_MEMBERS];
    char list[512] = "";
    pthread_t threads[MAX_MEMBERS];
    struct starting starting[MAX_MEMBERS];
    ck_assert_int_eq(setenv("LOCKSTEP_TRANSPORT", options->transport, 1), 0);
    ck_assert_int_eq(setenv("LOCKSTEP_ALGORITHM", algorithm_of(options), 1), 0);
    take_ports(ports, options->size);
    for (int i = 0; i < options->size; i++)
        (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s\"127.0.0.1:%d\"", i ? "," : "", ports[i]);
    for (int i = 0; i < options->size; i++) {
        members[i] = (struct member){.rank = i, .size = options->size, .context = context};
        starting[i] = (struct starting){options, &members[i], fn, list};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, member_thread, &starting[i]), 0);
    }
    for (int i = 0; i < options->size; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

void members_run_ok(const struct members_options *options, member_fn *fn, void *context) {
    struct member members[MAX_MEMBERS];
    members_run(options, fn, context, members);
    for (int i = 0; i < options->size; i++) ck_assert_msg(!members[i].status, "rank %d: %s", i, members[i].error);
}
