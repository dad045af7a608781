/* A server compares the bytes of its part of a model with the memory that it may have, before any of it is taken. */
#pragma once
#include "base/memory_limit.h"
#include "store/holding.h"

struct ls_memory_check {
    const struct ls_terms_model *terms;
    int workers, servers, server, rank;
    size_t others; /* bytes of what the server keeps beside, and goes on keeping */
    struct ls_memory_limit limit;
};
/* Bytes of a server's part and of what comes from the workers. */
size_t ls_memory_check_needed(const struct ls_terms_model *terms, int workers, int servers, int server);
/* More than servers, so many that each of them fits bytes; 0: no number does. */
int ls_memory_check_suffices(const struct ls_terms_model *terms, int workers, int servers, size_t bytes);
/* RESOURCE_EXHAUSTED, with the number of servers that suffices, where it does not fit. */
ls_status ls_memory_check_run(const struct ls_memory_check *check);
