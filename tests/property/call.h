/* One random collective: drawn alike on all ranks, made by each with arrays of its own that lie anywhere, and compared
 * with the oracle in bits. Every array has guards around it, which nobody may touch. */
#pragma once
#include <lockstep/lockstep.h>

#include "collective/world.h"
#include "property/draw.h"

enum { MOST_RANKS = 8, MOST_LEAVES = 24, POOLS = 2 };

/* A world as it was drawn. */
struct setting {
    uint64_t seed;
    int size;
    enum wire wire;
    bool measured; /* AUTO's table */
    int hosts[MOST_RANKS];
    int host_count; /* of ranks that share memory; size: nobody does */
    enum ls_algorithm algorithm;
    size_t segment;
};

enum kind { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, BARRIER, SHARE, KINDS };
struct call {
    uint64_t seed, number;
    enum kind kind;
    ls_communication communication;
    ls_reduce_op op;
    ls_dtype dtype;
    ls_compression compression;
    size_t count; /* elements: of all parts together where there are parts */
    int root;
    int first[MOST_RANKS + 1]; /* of all_reduce: leaves of each rank */
    size_t counts[MOST_RANKS]; /* of all_gather and reduce_scatter */
    bool pooled;               /* all arrays in place in one pool, so that shared memory needs no copies */
    char text[512];
};
/* Memory of ls_group_share. */
struct pool {
    unsigned char *memory;
    size_t size, used;
};
/* The inputs and answers that all ranks of one process share. */
struct answers {
    unsigned char *leaves[MOST_LEAVES], *expected;
};

struct setting draw_setting(uint64_t seed);
void setting_describe(const struct setting *setting, char *text, size_t size);
/* The number-th call of a world. */
void draw_call(const struct setting *setting, uint64_t number, struct call *call);
void answers_prepare(struct answers *answers, const struct setting *setting, const struct call *call);
void answers_free(struct answers *answers);
/* Makes the call as rank and compares; ends the program where anything differs. */
ls_status call_make(struct ls_group *group, const struct setting *setting, const struct call *call,
                    const struct answers *answers, struct pool pools[POOLS]);
