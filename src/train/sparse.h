/* Embedding tables whose rows are on parameter servers alone: which these are, and the rows that a step takes. Mirrors
 * torch.nn.Embedding(sparse=True) and the IndexedSlices of TensorFlow's parameter servers. */
#pragma once
#include "shard/terms.h"
#include "train/model.h"

/* The model's network, with the tables that the strategy's rule makes sparse for batches of that dataset. */
ls_status ls_sparse_network(const ls_model *model, const ls_dataset *data, struct ls_network **network);
bool ls_sparse_has(const ls_model *model);
/* UNIMPLEMENTED for what needs whole tables on a worker; ls_sparse_need: unless ls_sparse_here has them. */
ls_status ls_sparse_refuse(const ls_model *model, const char *what);
ls_status ls_sparse_need(const ls_model *model, const char *what);
/* A table's rows as they are after the newest step; NULL: they are on the servers alone. Rank 0 has them after a step
 * with a checkpoint. */
const float *ls_sparse_here(const ls_model *model, int table);
/* Errors of the model's optimizer with sparse tables. */
ls_status ls_sparse_check(const ls_model *model);
/* The tables as terms of the servers; *tables is freed with ls_free. */
ls_status ls_sparse_terms(const ls_model *model, struct ls_terms_table **tables);
/* Draws the tables as they are before the first step, with moments of zero, into copies of this worker. */
ls_status ls_sparse_draw(const ls_model *model);
/* Room for the rows of batches of so many examples a replica. */
ls_status ls_sparse_reserve(ls_model *model, int64_t rows);
/* That room, in bytes: rows and their gradients, ids and their places. */
size_t ls_sparse_bytes(const ls_model *model, int64_t rows);
void ls_sparse_release(ls_model *model);
/* The rows that a replica's plans take; NULL without sparse tables. */
const struct ls_plan_rows *ls_sparse_plan(const ls_model *model, int local);
/* For the present generation: the rows of batches come. */
void ls_sparse_attach(ls_model *model);
