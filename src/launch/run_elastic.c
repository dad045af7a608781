/* A rank that runs nowhere is absent. The lowest absent ranks start where there is room, in the order of the list. So
 * the ranks that were ever started are the lowest ones, and the first generation needs no others
 * (LOCKSTEP_ELASTIC_START). */
#define _GNU_SOURCE
#include "launch/run_elastic.h"

#include <stdlib.h>
#include <string.h>

#include "launch/run_hosts.h"

#define FAILURES_MOST 10 /* of a host, which is left out for good then */

/* ---- The beginning ---------------------------------------------------------------------------------------------- */

static int say_missing(const struct ls_run_elastic *elastic) {
    int slots = ls_discover_slots(&elastic->discover), least = elastic->options->least;
    (void)fprintf(stderr,
                  "lockstep run: %d slots are missing: host discovery script %s names %d hosts with %d slots, and "
                  "--min-np is %d; waited %g s (--elastic-timeout)\n",
                  least - slots, elastic->options->script, elastic->discover.count, slots, least,
                  elastic->options->timeout);
    return 1;
}

static int await_slots(struct ls_run_elastic *elastic) {
    double end = ls_launch_now() + elastic->options->timeout;
    bool known = false;
    for (;;) {
        enum ls_discovered got = ls_discover_step(&elastic->discover);
        if (got == LS_DISCOVERED_FAILURE && !known) {
            (void)fprintf(stderr, "lockstep run: %s\n", elastic->discover.why);
            return 1;
        }
        known = known || got == LS_DISCOVERED_HOSTS;
        if (known && ls_discover_slots(&elastic->discover) >= elastic->options->least) return 0;
        if (known && ls_launch_now() >= end) return say_missing(elastic);
        struct pollfd polled;
        ls_discover_fill(&elastic->discover, &polled);
        (void)poll(&polled, 1, 10);
    }
}

int ls_elastic_begin(const struct ls_elastic_options *options, const struct ls_hosts_options *hosts,
                     struct ls_launch *launch, struct ls_run_elastic *elastic) {
    *elastic = (struct ls_run_elastic){
        .options = options, .discover = {.script = options->script, .limit = hosts->limit, .launch = launch}};
    int status = await_slots(elastic), slots = ls_discover_slots(&elastic->discover);
    launch->start = slots < options->most ? slots : options->most;
    return status;
}

void ls_elastic_end(struct ls_run_elastic *elastic) {
    ls_discover_end(&elastic->discover);
    free(elastic->cooled);
}

/* ---- Hosts ------------------------------------------------------------------------------------------------------ */

bool ls_elastic_lists(const struct ls_run_elastic *elastic, const char *name) {
    for (int i = 0; i < elastic->discover.count; i++)
        if (!strcmp(elastic->discover.hosts[i].name, name)) return true;
    return false;
}

static struct ls_cooled *find_cooled(const struct ls_run_elastic *elastic, const char *name) {
    for (int i = 0; i < elastic->cooled_count; i++)
        if (!strcmp(elastic->cooled[i].name, name)) return &elastic->cooled[i];
    return NULL;
}

double ls_elastic_cool(struct ls_run_elastic *elastic, const char *name) {
    struct ls_cooled *cooled = find_cooled(elastic, name);
    if (!cooled) {
        size_t count = (size_t)elastic->cooled_count + 1;
        struct ls_cooled *more = realloc(elastic->cooled, count * sizeof(*more));
        if (!more) return 0;
        elastic->cooled = more;
        cooled = &more[elastic->cooled_count++];
        *cooled = (struct ls_cooled){0};
        (void)snprintf(cooled->name, sizeof(cooled->name), "%s", name);
    }
    double wait = elastic->options->cool[0];
    if (ls_launch_now() < cooled->until) return cooled->until - ls_launch_now(); /* lost together */
    for (int i = 0; i < cooled->failures && wait < elastic->options->cool[1]; i++) wait *= 2;
    if (wait > elastic->options->cool[1]) wait = elastic->options->cool[1];
    cooled->failures++;
    cooled->until = ls_launch_now() + wait;
    return cooled->failures > FAILURES_MOST ? -1 : wait;
}

static int room_on(const struct ls_run_elastic *elastic, const struct ls_run_hosts *hosts,
                   const struct ls_worker *workers, const ls_tools_slots *named) {
    const struct ls_cooled *cooled = find_cooled(elastic, named->name);
    if (cooled && (ls_launch_now() < cooled->until || cooled->failures > FAILURES_MOST)) return 0;
    int room = ls_moves_free(hosts, named, workers);
    return room > 0 ? room : 0;
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------ */

bool ls_elastic_may_start(const struct ls_run_elastic *elastic, const struct ls_run_hosts *hosts,
                          const struct ls_worker *workers, int alive) {
    int room = 0, absent = 0, highest = 0, staying = 0;
    for (int rank = 0; rank < hosts->launch->count; rank++) staying += !workers[rank].ended && !workers[rank].leaves;
    if (alive && !staying) return false; /* there is nobody to join, and who leaves is not to be waited for */
    for (int i = 0; i < elastic->discover.count; i++)
        room += room_on(elastic, hosts, workers, &elastic->discover.hosts[i]);
    for (int rank = 0; rank < hosts->launch->count; rank++) {
        if (!workers[rank].absent || absent == room) continue;
        absent++;
        highest = rank;
    }
    if (!absent || (!alive && absent < elastic->options->least)) return false;
    if (!alive || hosts->launch->start <= highest) hosts->launch->start = highest + 1;
    return true;
}

bool ls_elastic_plan(const struct ls_run_elastic *elastic, const struct ls_run_hosts *hosts,
                     const struct ls_worker *workers, struct ls_elastic_plan *plan) {
    for (int i = 0; i < elastic->discover.count; i++) {
        plan->named = &elastic->discover.hosts[i];
        plan->count = 0;
        int room = room_on(elastic, hosts, workers, plan->named);
        for (int rank = 0; rank < hosts->launch->count && plan->count < room; rank++)
            if (workers[rank].absent) plan->ranks[plan->count++] = rank;
        if (plan->count) return true;
    }
    return false;
}
