/* The terms of a model for parameter servers, and the numbers of a step, from any words: refused with one error, or
 * taken; then they encode to the same words, and stripes divide them. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "fuzz/fuzz.h"
#include "shard/holding.h"

enum { SERVERS = 3, MOST = 1 << 20 /* elements that are divided */ };

static void require(bool condition) {
    if (!condition) abort();
}

static void check_terms(const struct ls_terms_model *terms, const int64_t *words, size_t count) {
    LS_CLEANUP(ls_free_pointer) int64_t *again = NULL;
    struct ls_holding *holding = NULL;
    size_t made = 0;
    require(!ls_terms_encode(terms, &again, &made) && made == count);
    require(!memcmp(again, words, 3 * sizeof(*words)));
    const struct ls_layout layout = ls_layout_of(terms, SERVERS);
    for (size_t b = 0; b < terms->bucket_count; b++) {
        size_t at = 0;
        for (int s = 0; s < SERVERS; s++) {
            struct ls_range range = ls_layout_range(&layout, b, s);
            require(range.begin <= range.end && range.end <= terms->count);
            at += range.end - range.begin;
        }
        require(at == terms->buckets[b].end - terms->buckets[b].begin);
    }
    if (terms->count + ls_terms_table_floats(terms) > MOST || terms->replicas > SERVERS) return;
    require(!ls_holding_new(terms, SERVERS, 1, &holding));
    for (size_t p = 0; p < holding->part_count; p++)
        require(holding->parts[p].offset + holding->parts[p].count <= holding->count);
    ls_holding_free(holding);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t count = size / sizeof(int64_t);
    LS_CLEANUP(ls_free_pointer) int64_t *words = ls_alloc_array(count + LS_STEP_WORDS, sizeof(*words));
    struct ls_terms_model terms;
    struct ls_terms_step step;
    require(words);
    if (count) memcpy(words, data, count * sizeof(*words));
    ls_status status = ls_terms_decode(words, count, &terms);
    require(!status || (status == LS_DATA_LOSS && ls_error()[0]));
    if (!status) check_terms(&terms, words, count);
    if (!status) ls_terms_free(&terms);
    status = ls_terms_step_decode(words, &step);
    require(!status || (status == LS_DATA_LOSS && ls_error()[0]));
    if (status) return 0;
    int64_t again[LS_STEP_WORDS];
    ls_terms_step_encode(&step, again);
    require(again[1] == words[1]);
    return 0;
}
