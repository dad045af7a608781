/* Which rows leaves want in a step: ids of a batch, each once, those of a server together; as words on the way to it;
 * and the sums of their gradients in the order of the tree. No I/O. */
#pragma once
#include "device/labels.h"
#include "shard/layout.h"

/* A replica's part of a step. All tables of a model have the same ids, those of its examples. */
struct ls_row_leaf {
    int32_t *ids; /* [count], by their owners, and ascending for each */
    size_t count;
    float **rows, **gradients; /* [tables] [count][width] */
    int servers;               /* the owner of an id is id mod servers */
};
/* From the ids of a batch, as of ls_ids_check, to leaf->ids, for which there is memory, and the place of each among
 * them. */
ls_status ls_row_lists_unique(const struct ls_tensor *ids, int servers, struct ls_row_leaf *leaf, int32_t *places);

/* The ids of one owner in a leaf: they stand together. */
struct ls_row_span {
    size_t first, count;
};
struct ls_row_span ls_row_lists_span(const struct ls_row_leaf *leaf, int owner);
/* Writes what a worker with so many leaves tells one server: the number of leaves, then for each of them and for each
 * owner whose rows the server holds, the server itself first, a number of ids, and these. words may be NULL. Returns
 * how many. */
size_t ls_row_lists_encode(const struct ls_row_leaf *leaves, int count, const struct ls_layout *layout, int server,
                           int32_t *words);

/* Ids of a leaf that one owner has, as a server reads them. */
struct ls_row_slice {
    const int32_t *ids;
    size_t count;
    float *gradients; /* of the present table, [count][width] */
};
struct ls_row_lists {
    int leaves;                  /* of all workers */
    struct ls_row_slice *slices; /* [leaves][copies] */
    int *first;                  /* [workers + 1] leaves */
};
/* The words of workers to one server. Ids are below limit. */
struct ls_row_words {
    const int32_t *words; /* of all workers one behind the other */
    const size_t *counts; /* [workers] of each */
    int workers, server;
    int64_t limit;
};
/* The lists go on to point to the words. DATA_LOSS for words that are none, and for an id that is not the owner's. */
ls_status ls_row_lists_decode(const struct ls_row_words *told, const struct ls_layout *layout,
                              struct ls_row_lists *lists);
void ls_row_lists_free(struct ls_row_lists *lists);

/* The rows that any leaf has of the owner number copy, ascending, and their gradients, added in the order of the tree
 * over all leaves, where an absent leaf passes through. Overwrites gradients of the slices. */
struct ls_row_sums {
    int32_t *ids;     /* own */
    float *gradients; /* own; [count][width] */
    size_t count;
};
ls_status ls_row_lists_add(const struct ls_row_lists *lists, int copies, int copy, size_t width,
                           struct ls_row_sums *sums);
void ls_row_lists_free_sums(struct ls_row_sums *sums);
