/* The timelines and flight records of a run's ranks, read back and laid beside each other for lockstep timeline. Files
 * may be damaged in any way. A damaged file is one error that names it and the place. */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

struct ls_timeline_key {  /* equal on all ranks for the same collective */
    int64_t major, minor; /* its sequence and 0; or, in a timeline, step and bucket */
};
struct ls_timeline_span {
    char *name, *args;    /* args: a JSON object */
    int64_t begun, ended; /* nanoseconds since LS_CHROME_TIME_BASE, by the file's own clock */
    int tid;
    bool collective; /* then the rest is known too */
    bool through;    /* it has ended well */
    bool meets_all;  /* nobody can leave before all have come */
    struct ls_timeline_key key;
    char *label; /* what it is, to be compared between ranks: "all_reduce 'gradients' of 1024 float32" */
};
struct ls_timeline_thread {
    int tid;
    char *name;
};
struct ls_timeline_file {
    char *path;
    int rank, workers;
    bool is_flight;
    char *clock;  /* equal clocks need no comparing; may be empty */
    char *reason; /* a flight record's: the error; may be empty */
    struct ls_timeline_span *spans;
    struct ls_timeline_thread *threads;
    size_t span_count, thread_count;
};

/* A rank as the collectives show it. */
struct ls_timeline_rank {
    const struct ls_timeline_file *file; /* NULL if no file of it tells of collectives */
    struct ls_timeline_span **calls;     /* [count] its collectives by key, each once; borrowed from file */
    size_t count;
    bool aligned;               /* offset is known: the clock is the first rank's or was compared with it */
    int64_t offset;             /* to be added to the file's times */
    int64_t uncertainty;        /* of offset; 0 for one and the same clock */
    int64_t came_last;          /* to so many collectives in common ... */
    double late;                /* ... for which the others waited so many nanoseconds more than for the last but one */
    double compute, wait, wire; /* nanoseconds: in none of them; until the last has come; from then on */
};
struct ls_timeline {
    int workers;
    struct ls_timeline_file *files; /* [file_count] borrowed */
    int file_count;
    struct ls_timeline_rank *ranks; /* [workers] */
    int known;                      /* ranks with collectives */
    size_t common;                  /* collectives that all those have been through */
    bool differs;                   /* some have another collective at ... */
    struct ls_timeline_key difference;
};
/* timeline.c: finds the collectives in common, aligns the clocks and adds up. INVALID_ARGUMENT for files that are not
 * of one run. */
ls_status ls_timeline_new(struct ls_timeline_file *files, int count, struct ls_timeline **timeline);
void ls_timeline_free(struct ls_timeline *timeline);
/* The rank's span at key, or NULL. */
const struct ls_timeline_span *ls_timeline_find(const struct ls_timeline_rank *rank, struct ls_timeline_key key);

void ls_timeline_page_print(const struct ls_timeline *timeline, FILE *out);

void ls_timeline_print_merged(const struct ls_timeline *timeline, FILE *out);
void ls_timeline_print_text(const struct ls_timeline *timeline, FILE *out);
void ls_timeline_print_json(const struct ls_timeline *timeline, FILE *out);

/* timeline_read.c. INVALID_ARGUMENT naming path, line and column, or the event. */
ls_status ls_timeline_read_parse(const char *path, const char *text, size_t size, struct ls_timeline_file *file);
ls_status ls_timeline_read(const char *path, struct ls_timeline_file *file);
void ls_timeline_read_free_file(struct ls_timeline_file *file);
