/* The chunks go to all ranks by holders, and are sorted by variables there. */
#include "store/store_norms.h"

#include <string.h>

#include "base/new.h"
#include "collective/collectives.h"

/* mine: [the own chunks][kinds]. *all is [total][kinds], by holders, and freed with ls_free. */
static ls_status exchange_norms(const struct ls_store_norms *norms, const double *mine, int kinds, double **all) {
    size_t size = (size_t)ls_group_size(norms->group);
    LS_CLEANUP(ls_free_pointer) size_t *counts = ls_alloc_array(size, sizeof(*counts));
    LS_CLEANUP(ls_free_pointer) double *made = ls_alloc_array(norms->total * (size_t)kinds + 1, sizeof(*made));
    if (!counts || !made) return ls_fail_memory("norms", norms->total * (size_t)kinds * sizeof(*made));
    for (size_t i = 0; i < size; i++) counts[i] = norms->counts[i] * (size_t)kinds;
    ls_status status =
        ls_group_all_gather(norms->group, LS_ALL_GATHER("norms", mine ? mine : made, made, counts, LS_FLOAT64));
    if (!status) *all = ls_steal(made);
    return status;
}

/* [variables + 1] the first chunk of each among all of the model. */
static size_t *list_firsts(const struct ls_terms_model *terms) {
    size_t *firsts = ls_alloc_array(terms->part_count + 1, sizeof(*firsts));
    for (size_t v = 0; firsts && v < terms->part_count; v++)
        firsts[v + 1] = firsts[v] + ls_norm_chunks(terms->parts[v].offset, terms->parts[v].count);
    return firsts;
}

/* From the order of the holders to that of the variables. */
static ls_status sort_chunks(const struct ls_store_norms *norms, const size_t *firsts, int kinds, const double *all,
                             double *sorted) {
    const struct ls_terms_model *terms = norms->terms;
    const struct ls_layout layout = ls_layout_of(terms, norms->holding->servers);
    size_t most = terms->part_count + terms->bucket_count, width = (size_t)kinds;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_piece, pieces, most, "norms");
    for (int s = 0; s < layout.holders; s++) {
        size_t count = ls_layout_pieces_of(&layout, s, pieces);
        for (size_t p = 0; p < count; p++) {
            const struct ls_piece *piece = &pieces[p];
            size_t chunks = ls_norm_chunks(piece->begin, piece->end - piece->begin);
            size_t before = piece->begin / LS_NORM_CHUNK - terms->parts[piece->variable].offset / LS_NORM_CHUNK;
            memcpy(sorted + (firsts[piece->variable] + before) * width, all, chunks * width * sizeof(*all));
            all += chunks * width;
        }
    }
    return LS_OK;
}

static ls_status add_sorted(struct ls_store_norms *norms, const size_t *firsts, int kinds, const double *sorted) {
    size_t variables = norms->terms->part_count, width = (size_t)kinds;
    double **whole = &norms->whole[kinds - 1];
    if (!*whole) *whole = ls_alloc_array(variables * width + 1, sizeof(**whole));
    if (!*whole) return ls_fail_memory("norms", variables * width * sizeof(**whole));
    for (size_t v = 0; v < variables; v++)
        ls_norm_add(sorted + firsts[v] * width, firsts[v + 1] - firsts[v], kinds, *whole + v * width);
    ls_norm_add(*whole, variables, kinds, norms->sums[kinds - 1]);
    return LS_OK;
}

ls_status ls_store_norms_join(struct ls_store_norms *norms, const double *chunks, int kinds) {
    LS_CLEANUP(ls_free_pointer) double *all = NULL;
    LS_CLEANUP(ls_free_pointer) size_t *firsts = list_firsts(norms->terms);
    LS_CLEANUP(ls_free_pointer) double *sorted = ls_alloc_array(norms->total * (size_t)kinds + 1, sizeof(*sorted));
    if (!firsts || !sorted) return ls_fail_memory("norms", norms->total * (size_t)kinds * sizeof(*sorted));
    ls_status status = exchange_norms(norms, chunks, kinds, &all);
    if (!status) status = sort_chunks(norms, firsts, kinds, all, sorted);
    return status ? status : add_sorted(norms, firsts, kinds, sorted);
}

void ls_store_norms_find(const struct ls_store_norms *norms, int kinds, const size_t *variables, size_t count,
                         double *squares, double *total) {
    size_t width = (size_t)kinds;
    memcpy(total, norms->sums[kinds - 1], width * sizeof(*total));
    for (size_t i = 0; i < count; i++)
        memcpy(squares + i * width, norms->whole[kinds - 1] + variables[i] * width, width * sizeof(*squares));
}

/* The own ranges' chunks come first, before those of copies. */
static ls_status join(void *context, const double *chunks, size_t count, int kinds, double *squares, double *total) {
    struct ls_store_norms *norms = context;
    const struct ls_holding *holding = norms->holding;
    (void)count;
    ls_status status = ls_store_norms_join(norms, chunks, kinds);
    if (!status) ls_store_norms_find(norms, kinds, holding->variables, holding->part_count, squares, total);
    return status;
}

ls_status ls_store_norms_new(struct ls_group *group, int first, const struct ls_terms_model *terms,
                             const struct ls_holding *holding, struct ls_store_norms *norms) {
    size_t size = (size_t)ls_group_size(group);
    int holders = (int)size - first;
    const struct ls_layout layout = ls_layout_of(terms, holders);
    *norms = (struct ls_store_norms){.norms = {join, norms},
                                     .group = group,
                                     .terms = terms,
                                     .holding = holding,
                                     .counts = ls_alloc_array(size, sizeof(size_t))};
    if (!norms->counts) return ls_fail_memory("norms", size * sizeof(size_t));
    for (int h = 0; h < holders; h++) {
        norms->counts[first + h] = ls_layout_chunks(&layout, h);
        norms->total += norms->counts[first + h];
    }
    return LS_OK;
}

void ls_store_norms_free(struct ls_store_norms *norms) {
    ls_free(norms->counts);
    for (size_t i = 0; i < sizeof(norms->whole) / sizeof(norms->whole[0]); i++) ls_free(norms->whole[i]);
    *norms = (struct ls_store_norms){0};
}

ls_status ls_store_norms_pass(struct ls_store_norms *norms, const struct ls_optimizer_step *step) {
    const ls_optimizer *rule = &step->rule;
    int widths[2], count = 0;
    if (rule->clipnorm > 0 || rule->global_clipnorm > 0) widths[count++] = 1;
    if (rule->kind == LS_OPTIMIZER_LAMB) widths[count++] = 2;
    ls_status status = LS_OK;
    for (int i = 0; i < count && !status; i++) {
        LS_CLEANUP(ls_free_pointer) double *all = NULL;
        status =
            norms->holding ? ls_store_norms_join(norms, NULL, widths[i]) : exchange_norms(norms, NULL, widths[i], &all);
    }
    return status;
}
