/* The terms on which servers keep a model's trained variables: what is kept, and how it is divided. Workers tell them
 * when a generation begins. All offsets are elements (float32) of the blob. */
#pragma once
#include "base/fill.h"
#include "device/op.h"

struct ls_range {
    size_t begin, end;
};
/* A table whose rows are on servers alone: row r is owned by server r mod k of k. A worker has those of its batch. */
struct ls_terms_table {
    int64_t rows, width;
    struct ls_fill fill; /* its elements before the first step */
    bool decays;         /* by the rule's weight decay */
    float rate;          /* as of struct ls_blob_part */
};
struct ls_terms_model {
    int64_t model;            /* its number in the program */
    size_t count;             /* elements; 0: servers keep tables alone */
    int32_t kind;             /* enum ls_op_kind of the optimizer */
    int moments;              /* blobs beside the variables */
    int replicas;             /* servers that hold each element; no more than there are servers */
    struct ls_range *buckets; /* [bucket_count] pushed in this order; together they are all elements, but for gaps */
    size_t bucket_count;
    struct ls_blob_part *parts; /* [part_count] the variables, in order */
    size_t part_count;
    struct ls_terms_table *tables; /* [table_count] beside the blob */
    size_t table_count;
    bool asynchronous; /* trained in sessions (session.h): a worker's variables are a copy of some time ago */
};
/* Floats of all tables, with their moments. */
size_t ls_terms_table_floats(const struct ls_terms_model *terms);
ls_status ls_terms_copy(const struct ls_terms_model *terms, struct ls_terms_model *copy);
void ls_terms_free(struct ls_terms_model *terms); /* what it points to */
/* As words; *words is freed with ls_free. */
ls_status ls_terms_encode(const struct ls_terms_model *terms, int64_t **words, size_t *count);
/* DATA_LOSS for words that are no terms. */
ls_status ls_terms_decode(const int64_t *words, size_t count, struct ls_terms_model *terms);
/* Of all but the number of replicas. */
uint64_t ls_terms_digest(const struct ls_terms_model *terms);

/* The numbers of a step that an optimizer reads, on the way to the servers. */
enum { LS_STEP_WORDS = 24 };
struct ls_terms_step {
    struct ls_optimizer_step step;
    int64_t model;
    bool fetch; /* the moments go to rank 0 behind the step */
    bool keep;  /* the version before the step is what workers go back to: servers keep it until the next such step */
};
void ls_terms_step_encode(const struct ls_terms_step *step, int64_t words[LS_STEP_WORDS]);
/* DATA_LOSS for numbers of no step. */
ls_status ls_terms_step_decode(const int64_t words[LS_STEP_WORDS], struct ls_terms_step *step);
