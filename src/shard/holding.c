/* Ranges of the model's blob, one behind the other in blobs of the server. */
#include "shard/holding.h"

#include <string.h>

#include "base/new.h"
#include "device/norm.h"

static size_t round_up(size_t count) {
    return (count + LS_NORM_CHUNK - 1) / LS_NORM_CHUNK * LS_NORM_CHUNK;
}

/* A range lies as far behind a multiple of LS_NORM_CHUNK as in the model's blob, so that chunks stay chunks. Counts the
 * elements; held may be NULL. */
static void place_ranges(const struct ls_terms_model *terms, struct ls_holding *holding, struct ls_held *held) {
    const struct ls_layout layout = ls_layout_of(terms, holding->servers);
    for (int h = 0; h < holding->replicas; h++)
        for (size_t b = 0; b < terms->bucket_count; b++) {
            struct ls_range range = ls_layout_range(&layout, b, ls_layout_before(&layout, holding->server, h));
            size_t at = round_up(holding->count) + range.begin % LS_NORM_CHUNK;
            if (range.begin < range.end) holding->count = at + range.end - range.begin;
            if (held) *held++ = (struct ls_held){range, at};
        }
}

static size_t count_pieces(const struct ls_layout *layout, const struct ls_holding *holding) {
    size_t count = 0;
    for (size_t i = 0; i < holding->held_count; i++) count += ls_layout_pieces(layout, holding->held[i].range, NULL);
    return count;
}

static void list_pieces(const struct ls_layout *layout, struct ls_holding *holding, struct ls_piece *pieces) {
    size_t made = 0;
    for (size_t i = 0; i < holding->held_count; i++) {
        const struct ls_held *held = &holding->held[i];
        size_t count = ls_layout_pieces(layout, held->range, pieces);
        for (size_t p = 0; p < count; p++, made++) {
            holding->parts[made] = layout->terms->parts[pieces[p].variable];
            holding->parts[made].offset = held->at + pieces[p].begin - held->range.begin;
            holding->parts[made].count = pieces[p].end - pieces[p].begin;
            holding->variables[made] = pieces[p].variable;
        }
    }
}

static ls_status describe_ranges(const struct ls_terms_model *terms, struct ls_holding *holding) {
    const struct ls_layout layout = ls_layout_of(terms, holding->servers);
    holding->held = ls_alloc_array(holding->held_count, sizeof(*holding->held));
    if (!holding->held)
        return ls_fail_memory("a parameter server's ranges", holding->held_count * sizeof(*holding->held));
    place_ranges(terms, holding, holding->held);
    holding->part_count = count_pieces(&layout, holding);
    holding->parts = ls_alloc_array(holding->part_count + 1, sizeof(*holding->parts));
    holding->variables = ls_alloc_array(holding->part_count + 1, sizeof(*holding->variables));
    LS_CLEANUP(ls_free_pointer) struct ls_piece *pieces = ls_alloc_array(terms->part_count + 1, sizeof(*pieces));
    if (!holding->parts || !holding->variables || !pieces)
        return ls_fail_memory("a parameter server's variables", holding->part_count * sizeof(*holding->parts));
    list_pieces(&layout, holding, pieces);
    return LS_OK;
}

size_t ls_holding_bytes(const struct ls_holding *holding, int moments) {
    size_t bytes = (2 * (1 + (size_t)moments) + 1) * holding->count * sizeof(float);
    for (size_t t = 0; t < holding->table_count; t++) bytes += ls_table_bytes(holding->tables[t]);
    return bytes;
}

static ls_status make_blobs(const struct ls_terms_model *terms, struct ls_holding *holding) {
    bool made = true;
    for (int i = 0; i < 2 * (1 + terms->moments); i++) {
        float **blob = &holding->blobs[i % 2][i / 2];
        *blob = ls_alloc_aligned(holding->count * sizeof(float));
        made = made && *blob;
    }
    holding->gradients = ls_alloc_aligned(holding->count * sizeof(float));
    if (made && holding->gradients) return LS_OK;
    return ls_fail_memory("the variables that a parameter server holds: more servers hold less each",
                          ls_holding_bytes(holding, terms->moments));
}

static ls_status make_moments(const struct ls_terms_model *terms, struct ls_holding *holding) {
    size_t size = holding->count * sizeof(float);
    for (int m = 1; m <= terms->moments && size; m++)
        if (!(holding->blobs[0][m] = ls_alloc_aligned(size)))
            return ls_fail_memory("the moments that this worker owns: more workers own less each", size);
    return LS_OK;
}

static ls_status make_tables(const struct ls_terms_model *terms, struct ls_holding *holding) {
    const struct ls_layout layout = ls_layout_of(terms, holding->servers);
    ls_status status = LS_OK;
    holding->tables = ls_alloc_array(terms->table_count + 1, sizeof(*holding->tables));
    if (!holding->tables) return ls_fail_memory("tables", terms->table_count * sizeof(*holding->tables));
    holding->table_count = terms->table_count;
    for (size_t t = 0; t < terms->table_count && !status; t++)
        status = ls_table_new(&layout, &terms->tables[t], holding->server, &holding->tables[t]);
    return status;
}

static struct ls_holding holding_of(const struct ls_terms_model *terms, int servers, int server) {
    int copies = ls_layout_of(terms, servers).copies;
    return (struct ls_holding){.servers = servers,
                               .server = server,
                               .replicas = copies,
                               .held_count = (size_t)copies * terms->bucket_count,
                               .version = {-1, -1}};
}

size_t ls_holding_count(const struct ls_terms_model *terms, int servers, int server) {
    struct ls_holding holding = holding_of(terms, servers, server);
    place_ranges(terms, &holding, NULL);
    return holding.count;
}

size_t ls_holding_measure(const struct ls_terms_model *terms, int servers, int server) {
    const struct ls_layout layout = ls_layout_of(terms, servers);
    struct ls_holding holding = holding_of(terms, servers, server);
    place_ranges(terms, &holding, NULL);
    size_t bytes = ls_holding_bytes(&holding, terms->moments);
    for (size_t t = 0; t < terms->table_count; t++) {
        const struct ls_terms_table *table = &terms->tables[t];
        size_t rows = (size_t)holding.replicas * ls_layout_rows(&layout, table->rows, 0);
        bytes += rows * (size_t)table->width * (1 + (size_t)terms->moments) * sizeof(float);
    }
    return bytes;
}

ls_status ls_holding_new(const struct ls_terms_model *terms, int servers, int server, struct ls_holding **holding) {
    LS_NEW(struct ls_holding, made, "a parameter server's variables");
    *made = holding_of(terms, servers, server);
    ls_status status = describe_ranges(terms, made);
    if (!status) status = make_blobs(terms, made);
    if (!status) status = make_tables(terms, made);
    return LS_HAND_OVER(status, holding, made, ls_holding_free(made));
}

ls_status ls_holding_new_moments(const struct ls_terms_model *terms, int workers, int worker,
                                 struct ls_holding **holding) {
    LS_NEW(struct ls_holding, made, "a worker's moments");
    *made = holding_of(terms, workers, worker);
    ls_status status = describe_ranges(terms, made);
    if (!status) status = make_moments(terms, made);
    return LS_HAND_OVER(status, holding, made, ls_holding_free(made));
}

void ls_holding_free(struct ls_holding *holding) {
    if (!holding) return;
    for (int i = 0; i < 2 * (1 + LS_MAX_MOMENTS); i++) ls_free(holding->blobs[i % 2][i / 2]);
    for (size_t t = 0; t < holding->table_count; t++) ls_table_free(holding->tables[t]);
    ls_free(holding->tables);
    ls_free(holding->gradients);
    ls_free(holding->variables);
    ls_free(holding->parts);
    ls_free(holding->held);
    ls_free(holding);
}

void ls_holding_put(struct ls_holding *holding, int blob, struct ls_range range, const float *values) {
    for (size_t i = 0; i < holding->held_count; i++) {
        const struct ls_held *held = &holding->held[i];
        struct ls_range both = ls_layout_overlap(held->range, range);
        if (both.begin < both.end)
            memcpy(holding->blobs[0][blob] + held->at + both.begin - held->range.begin,
                   values + both.begin - range.begin, (both.end - both.begin) * sizeof(float));
    }
}

const float *ls_holding_find(const struct ls_holding *holding, int blob, struct ls_range range) {
    for (size_t i = 0; i < holding->held_count; i++) {
        const struct ls_held *held = &holding->held[i];
        if (held->range.begin <= range.begin && range.end <= held->range.end)
            return holding->blobs[0][blob] + held->at + range.begin - held->range.begin;
    }
    return NULL;
}

void ls_holding_keep(struct ls_holding *holding, int moments) {
    for (int i = 0; i <= moments; i++)
        memcpy(holding->blobs[1][i], holding->blobs[0][i], holding->count * sizeof(float));
    for (size_t t = 0; t < holding->table_count; t++) ls_table_keep(holding->tables[t]);
    holding->version[1] = holding->version[0];
}

void ls_holding_forget(struct ls_holding *holding) {
    for (int i = 0; i <= LS_MAX_MOMENTS; i++) ls_free(ls_steal(holding->blobs[1][i]));
    holding->version[1] = -1;
}

ls_status ls_holding_keep_moments(struct ls_holding *holding, int moments, int64_t version) {
    size_t size = holding->count * sizeof(float);
    ls_holding_forget(holding);
    for (int m = 1; m <= moments && size; m++) {
        holding->blobs[1][m] = ls_alloc_aligned(size);
        if (!holding->blobs[1][m]) return ls_fail_memory("the moments before a step", size);
    }
    holding->version[1] = version;
    return LS_OK;
}

bool ls_holding_return(struct ls_holding *holding, int64_t version) {
    if (holding->version[0] == version) return true;
    if (holding->version[1] != version) return false;
    for (int i = 0; i <= LS_MAX_MOMENTS; i++) {
        float *before = holding->blobs[1][i];
        holding->blobs[1][i] = holding->blobs[0][i];
        holding->blobs[0][i] = before;
    }
    for (size_t t = 0; t < holding->table_count; t++) ls_table_return(holding->tables[t]);
    holding->version[0] = version;
    holding->version[1] = -1;
    return true;
}
