/* The rows of tables in a handover, in pieces: from the servers that have them, or from a worker. */
#pragma once
#include "collective/group.h"
#include "shard/holding.h"
#include "shard/part.h"

struct ls_table_move {
    struct ls_group *group;
    const struct ls_terms_model *terms;
    const struct ls_holding *own;       /* a server's of the division before; NULL: it has none */
    struct ls_holding *next;            /* a server's to be; NULL on a worker */
    int old;                            /* servers of the division before */
    const int *holders;                 /* [old] the rank that has the rows of each of them */
    int root;                           /* the worker that gives */
    const struct ls_shard_part *tables; /* as of struct ls_handover */
};
/* Each adds to moved the bytes that servers took. */
ls_status ls_handover_tables_from_servers(const struct ls_table_move *move, size_t *moved);
ls_status ls_handover_tables_from_worker(const struct ls_table_move *move, size_t *moved);
/* Writes the rows as they are before the first step. */
void ls_handover_tables_draw(const struct ls_table_move *move);
