/* A server compares the bytes of its part of a model with the memory that it may have, before any of it is taken. */
#pragma once
#include "base/memory.h"
#include "shard/holding.h"

/* Words that a server tells all ranks, so that all end with one error. Zero: it fits. */
struct ls_memory_need {
    int64_t needed, allowed; /* bytes */
    int64_t of;              /* as of struct ls_memory_limit */
    int64_t enough;          /* servers that suffice; 0: no number does */
};
struct ls_memory_check {
    const struct ls_terms_model *terms;
    int workers, servers, server;
    size_t others; /* bytes of what the server keeps beside, and goes on keeping */
    struct ls_memory_limit limit;
};
/* Bytes of a server's part and of what comes from the workers. */
size_t ls_memory_check_needed(const struct ls_terms_model *terms, int workers, int servers, int server);
/* More than servers, so many that each of them fits bytes; 0: no number does. */
int ls_memory_check_suffices(const struct ls_terms_model *terms, int workers, int servers, size_t bytes);
struct ls_memory_need ls_memory_check_find(const struct ls_memory_check *check);
/* RESOURCE_EXHAUSTED, on all ranks, where the server of that rank has told that it does not fit. */
ls_status ls_memory_check_told(const struct ls_terms_model *terms, int rank, int servers,
                               const struct ls_memory_need *need);
