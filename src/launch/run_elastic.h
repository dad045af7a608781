/* A run whose hosts come and go (--host-discovery-script): where its workers start, which hosts are left out for a
 * while, and how long too few slots are waited for. As horovodrun's elastic driver does it. */
#pragma once
#include "launch/run_discover.h"
#include "launch/run_hosts.h"

/* Seconds; a row of lockstep settings. */
#define LS_RUN_SLOTS 600.0 /* default */
/* The defaults of --blacklist-cooldown-range. */
#define LS_RUN_COOL      10.0
#define LS_RUN_COOL_MOST 300.0

struct ls_elastic_options {
    const char *script; /* NULL: the hosts stay */
    int least, most;    /* --min-np, --max-np */
    double timeout;     /* --elastic-timeout */
    double cool[2];     /* --blacklist-cooldown-range */
};
struct ls_cooled {
    char name[256];
    int failures;
    double until; /* the host gets no workers */
};
struct ls_run_elastic {
    const struct ls_elastic_options *options;
    struct ls_discovery discover;
    struct ls_cooled *cooled; /* [cooled_count] */
    int cooled_count;
    bool told;          /* that the script fails */
    double short_since; /* fewer than least workers run; 0: enough do */
};
/* Some ranks that a host is to take. */
struct ls_elastic_plan {
    const ls_tools_slots *named;
    int ranks[1024], count;
};

/* Asks the script until there are enough slots: 0, and launch knows how many begin. Else the exit status, after the
 * error was printed. */
int ls_elastic_begin(const struct ls_elastic_options *options, const struct ls_hosts_options *hosts,
                     struct ls_launch *launch, struct ls_run_elastic *elastic);
void ls_elastic_end(struct ls_run_elastic *elastic);
bool ls_elastic_lists(const struct ls_run_elastic *elastic, const char *name);
/* A worker was lost there: the host gets none for a while. Returns the seconds; -1: for good. */
double ls_elastic_cool(struct ls_run_elastic *elastic, const char *name);
/* True if workers that are absent can start, and, where nobody runs, enough of them to begin anew. Sets how many
 * the first generation needs. */
bool ls_elastic_may_start(const struct ls_run_elastic *elastic, const struct ls_run_hosts *hosts,
                          const struct ls_worker *workers, int alive);
/* The next host with room, and the ranks for it; false if there is none. */
bool ls_elastic_plan(const struct ls_run_elastic *elastic, const struct ls_run_hosts *hosts,
                     const struct ls_worker *workers, struct ls_elastic_plan *plan);
