/* A message between one worker and one server has the order of leaves, then tables, then owners, then ids. Both sides
 * know its size from the ids, which cross once a step. */
#include "store/row_calls.h"

#include <string.h>

#include "base/new.h"
#include "collective/collectives.h"
#include "collective/servers/pull.h"

#define PIECE      ((size_t)1 << 18) /* floats of a table on their way to rank 0 */
#define MOST_WORDS ((size_t)1 << 31) /* of one worker's ids */

/* Elements to and from each rank. */
struct counts {
    size_t *send, *receive;
};

static void free_counts(struct counts *counts) {
    ls_free(counts->send);
    ls_free(counts->receive);
}

static ls_status new_counts(const struct ls_group *group, struct counts *counts) {
    size_t size = (size_t)ls_group_size(group);
    *counts = (struct counts){ls_alloc_array(size, sizeof(size_t)), ls_alloc_array(size, sizeof(size_t))};
    return counts->send && counts->receive ? LS_OK : ls_fail_memory("rows", size * sizeof(size_t));
}

static ls_status move(struct ls_group *group, ls_dtype dtype, const struct counts *counts, const void *input,
                      void *output) {
    const struct ls_all_to_all call = {LS_STORE_ROWS, dtype, input, counts->send, output, counts->receive, true};
    return ls_group_all_to_all(group, &call);
}

/* Each worker tells each server how many words it has for it. */
static ls_status tell_sizes(struct ls_group *group, const struct counts *sizes) {
    int size = ls_group_size(group), workers = size - ls_group_serving(group);
    bool works = ls_group_rank(group) < workers;
    LS_CLEANUP(free_counts) struct counts one = {NULL, NULL};
    ls_status status = new_counts(group, &one);
    for (int i = 0; i < size && !status; i++)
        if (works != (i < workers)) (works ? one.send : one.receive)[i] = 1;
    return status ? status : move(group, LS_INT64, &one, sizes->send + workers, sizes->receive);
}

static ls_status new_floats(const size_t *counts, const struct ls_group *group, float **made) {
    size_t sum = 1;
    for (int i = 0; i < ls_group_size(group); i++) sum += counts[i];
    *made = ls_alloc_aligned(sum * sizeof(**made));
    return *made ? LS_OK : ls_fail_memory("rows", sum * sizeof(**made));
}

/* ---- a worker ---- */

static ls_status ask_for_rows(struct ls_group *group, const struct ls_terms_model *terms,
                              const struct ls_row_leaf *leaves, int count) {
    const struct ls_layout layout = ls_layout_of(terms, ls_group_serving(group));
    for (int l = 0; l < count; l++)
        if (leaves[l].servers != layout.holders)
            return ls_fail(LS_INTERNAL, "rows are listed for %d parameter servers, and there are %d", leaves[l].servers,
                           layout.holders);
    int workers = ls_group_size(group) - layout.holders;
    LS_CLEANUP(free_counts) struct counts counts = {NULL, NULL};
    size_t sum = 0;
    ls_status status = new_counts(group, &counts);
    for (int s = 0; s < layout.holders && !status; s++)
        sum += counts.send[workers + s] = ls_row_lists_encode(leaves, count, &layout, s, NULL);
    LS_CLEANUP(ls_free_pointer) int32_t *words = ls_alloc_array(sum + 1, sizeof(*words));
    int32_t *at = words;
    if (!status && !words) status = ls_fail_memory("ids", sum * sizeof(*words));
    for (int s = 0; s < layout.holders && !status; s++) at += ls_row_lists_encode(leaves, count, &layout, s, at);
    if (!status) status = tell_sizes(group, &counts);
    return status ? status : move(group, LS_INT32, &counts, words, NULL);
}

struct moved {
    size_t width;
    int owner;
    bool takes; /* the leaf gets the owner's */
};

/* Copies between the floats of one owner and those of a leaf. Returns how many. */
static size_t move_owner(const struct ls_row_leaf *leaf, float *rows, struct moved moved, float *floats) {
    const struct ls_row_span span = ls_row_lists_span(leaf, moved.owner);
    float *own = rows + span.first * moved.width;
    size_t count = span.count * moved.width;
    if (count) memcpy(moved.takes ? own : floats, moved.takes ? floats : own, count * sizeof(*rows));
    return count;
}

static size_t width_of_all(const struct ls_terms_model *terms) {
    size_t width = 0;
    for (size_t t = 0; t < terms->table_count; t++) width += (size_t)terms->tables[t].width;
    return width;
}

/* takes: what the owners have given goes to the leaves. Else their gradients go to all holders. */
static void move_rows(const struct ls_layout *layout, const struct ls_row_leaf *leaves, int count, float *at,
                      bool takes) {
    for (int s = 0; s < layout->holders; s++)
        for (int l = 0; l < count; l++)
            for (size_t t = 0; t < layout->terms->table_count; t++)
                for (int c = 0; c < (takes ? 1 : layout->copies); c++)
                    at += move_owner(
                        &leaves[l], (takes ? leaves[l].rows : leaves[l].gradients)[t],
                        (struct moved){(size_t)layout->terms->tables[t].width, ls_layout_before(layout, s, c), takes},
                        at);
}

static ls_status exchange_rows(struct ls_group *group, const struct ls_terms_model *terms,
                               const struct ls_row_leaf *leaves, int count, bool takes) {
    const struct ls_layout layout = ls_layout_of(terms, ls_group_serving(group));
    int workers = ls_group_size(group) - layout.holders, copies = takes ? 1 : layout.copies;
    LS_CLEANUP(free_counts) struct counts counts = {NULL, NULL};
    LS_CLEANUP(ls_free_pointer) float *rows = NULL;
    ls_status status = new_counts(group, &counts);
    size_t *floats = takes ? counts.receive : counts.send;
    for (int i = 0; i < layout.holders * copies && !status; i++)
        for (int l = 0; l < count; l++)
            floats[workers + i / copies] +=
                ls_row_lists_span(&leaves[l], ls_layout_before(&layout, i / copies, i % copies)).count *
                width_of_all(terms);
    if (!status) status = new_floats(floats, group, &rows);
    if (!status && !takes) move_rows(&layout, leaves, count, rows, false);
    if (!status) status = move(group, LS_FLOAT32, &counts, rows, rows);
    if (!status && takes) move_rows(&layout, leaves, count, rows, true);
    return status;
}

ls_status ls_row_calls_pull(struct ls_group *group, const struct ls_terms_model *terms,
                            const struct ls_row_leaf *leaves, int count) {
    ls_status status = ask_for_rows(group, terms, leaves, count);
    return status ? status : exchange_rows(group, terms, leaves, count, true);
}

ls_status ls_row_calls_push(struct ls_group *group, const struct ls_terms_model *terms,
                            const struct ls_row_leaf *leaves, int count) {
    return exchange_rows(group, terms, leaves, count, false);
}

/* ---- a server ---- */

void ls_row_calls_free(struct ls_row_step *step) {
    ls_row_lists_free(&step->lists);
    ls_free(ls_steal(step->words));
    ls_free(ls_steal(step->gradients));
    step->wanted = false;
}

static ls_status hear(struct ls_group *group, const struct ls_terms_model *terms, const struct ls_holding *holding,
                      struct ls_row_step *step) {
    const struct ls_layout layout = ls_layout_of(terms, ls_group_serving(group));
    LS_CLEANUP(free_counts) struct counts counts = {NULL, NULL};
    int workers = ls_group_size(group) - layout.holders;
    int64_t limit = INT32_MAX;
    size_t sum = 0;
    for (size_t t = 0; t < terms->table_count; t++)
        if (terms->tables[t].rows < limit) limit = terms->tables[t].rows;
    ls_row_calls_free(step);
    ls_status status = new_counts(group, &counts);
    if (!status) status = tell_sizes(group, &counts);
    for (int w = 0; w < workers && !status; w++) {
        if (counts.receive[w] > MOST_WORDS)
            status = ls_fail(LS_DATA_LOSS, "rank %d wants rows by %zu words", w, counts.receive[w]);
        sum += counts.receive[w];
    }
    if (status) return status;
    step->words = ls_alloc_array(sum + 1, sizeof(*step->words));
    if (!step->words) return ls_fail_memory("ids", sum * sizeof(*step->words));
    status = move(group, LS_INT32, &counts, NULL, step->words);
    if (status) return status;
    const struct ls_row_words told = {step->words, counts.receive, workers, holding->server, limit};
    return ls_row_lists_decode(&told, &layout, &step->lists);
}

static size_t give_slice(const struct ls_table *table, const struct ls_row_slice *slice, float *to) {
    for (size_t i = 0; i < slice->count; i++)
        memcpy(to + i * table->width, table->blobs[0] + ls_table_place(table, slice->ids[i]) * table->width,
               table->width * sizeof(*to));
    return slice->count * table->width;
}

ls_status ls_row_calls_give(struct ls_group *group, const struct ls_terms_model *terms,
                            const struct ls_holding *holding, struct ls_row_step *step) {
    const struct ls_layout layout = ls_layout_of(terms, ls_group_serving(group));
    int workers = ls_group_size(group) - layout.holders;
    LS_CLEANUP(free_counts) struct counts counts = {NULL, NULL};
    LS_CLEANUP(ls_free_pointer) float *rows = NULL;
    ls_status status = hear(group, terms, holding, step);
    if (!status) status = new_counts(group, &counts);
    if (status) return status;
    for (int w = 0; w < workers; w++)
        for (int l = step->lists.first[w]; l < step->lists.first[w + 1]; l++)
            counts.send[w] += step->lists.slices[(size_t)l * (size_t)layout.copies].count * width_of_all(terms);
    status = new_floats(counts.send, group, &rows);
    if (status) return status;
    float *at = rows;
    for (int l = 0; l < step->lists.leaves; l++)
        for (size_t t = 0; t < terms->table_count; t++)
            at += give_slice(holding->tables[t], &step->lists.slices[(size_t)l * (size_t)layout.copies], at);
    status = move(group, LS_FLOAT32, &counts, rows, rows);
    step->wanted = !status;
    return status;
}

ls_status ls_row_calls_take(struct ls_group *group, const struct ls_terms_model *terms,
                            const struct ls_holding *holding, struct ls_row_step *step) {
    LS_CLEANUP(free_counts) struct counts counts = {NULL, NULL};
    int workers = ls_group_size(group) - ls_group_serving(group);
    size_t copies = (size_t)holding->replicas;
    ls_status status = new_counts(group, &counts);
    for (int w = 0; w < workers && !status; w++)
        for (size_t i = (size_t)step->lists.first[w] * copies; i < (size_t)step->lists.first[w + 1] * copies; i++)
            counts.receive[w] += step->lists.slices[i].count * width_of_all(terms);
    if (!status) status = new_floats(counts.receive, group, &step->gradients);
    if (!status) status = move(group, LS_FLOAT32, &counts, step->gradients, step->gradients);
    step->wanted = false;
    return status;
}

/* Points the slices to the gradients of one table. */
static void point_to(const struct ls_terms_model *terms, size_t table, int copies, struct ls_row_step *step) {
    float *at = step->gradients;
    for (int l = 0; l < step->lists.leaves; l++)
        for (size_t t = 0; t < terms->table_count; t++)
            for (int c = 0; c < copies; c++) {
                struct ls_row_slice *slice = &step->lists.slices[(size_t)l * (size_t)copies + (size_t)c];
                if (t == table) slice->gradients = at;
                at += slice->count * (size_t)terms->tables[t].width;
            }
}

/* The sums of all owners whose rows are here, one behind the other. */
static ls_status add_owners(const struct ls_table *table, struct ls_row_step *step, struct ls_table_update *update,
                            size_t *places) {
    ls_status status = LS_OK;
    for (int c = 0; c < table->layout.copies && !status; c++) {
        struct ls_row_sums sums = {NULL, NULL, 0};
        status = ls_row_lists_add(&step->lists, table->layout.copies, c, table->width, &sums);
        for (size_t i = 0; i < sums.count; i++) places[update->count + i] = ls_table_place(table, sums.ids[i]);
        if (sums.count)
            memcpy(update->gradients + update->count * table->width, sums.gradients,
                   sums.count * table->width * sizeof(float));
        update->count += sums.count;
        ls_row_lists_free_sums(&sums);
    }
    return status;
}

static ls_status apply_table(struct ls_table *table, struct ls_device *device, struct ls_row_step *step,
                             struct ls_table_update *update) {
    size_t most = 0;
    for (size_t i = 0; i < (size_t)step->lists.leaves * (size_t)table->layout.copies; i++)
        most += step->lists.slices[i].count;
    LS_CLEANUP(ls_free_pointer) size_t *places = ls_alloc_array(most + 1, sizeof(*places));
    LS_CLEANUP(ls_free_pointer) float *gradients = ls_alloc_aligned((most + 1) * table->width * sizeof(*gradients));
    if (!places || !gradients) return ls_fail_memory("sums of rows", most * table->width * sizeof(*gradients));
    update->places = places;
    update->gradients = gradients;
    ls_status status = add_owners(table, step, update, places);
    return status ? status : ls_table_apply(table, device, update);
}

ls_status ls_row_calls_apply(const struct ls_terms_model *terms, struct ls_holding *holding, struct ls_device *device,
                             const struct ls_optimizer_step *rule, struct ls_row_step *step) {
    ls_status status = LS_OK;
    for (size_t t = 0; t < terms->table_count && !status; t++) {
        struct ls_table_update update = {.kind = (enum ls_op_kind)terms->kind,
                                         .step = rule,
                                         .decays = terms->tables[t].decays,
                                         .rate = terms->tables[t].rate};
        point_to(terms, t, holding->replicas, step);
        status = apply_table(holding->tables[t], device, step, &update);
    }
    return status;
}

/* ---- to rank 0 ---- */

/* Places [begin, end) of every owner's rows of a table: server s brings them to the s-th part of scratch. */
struct fetching {
    struct ls_layout layout;
    const struct ls_terms_table *terms;
    size_t begin, end;
    float *scratch;
};

static ls_status fetch_piece(struct ls_group *group, const struct fetching *fetching, const float *from) {
    size_t width = (size_t)fetching->terms->width, begin = fetching->begin;
    size_t part = (fetching->end - begin) * width * sizeof(float);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_stripe, owned, (size_t)fetching->layout.holders, "a pull");
    for (int s = 0; s < fetching->layout.holders; s++) {
        size_t count = ls_layout_rows(&fetching->layout, fetching->terms->rows, s);
        size_t last = count < fetching->end ? count : fetching->end;
        owned[s] = (struct ls_stripe){(size_t)s * part, last > begin ? (last - begin) * width * sizeof(float) : 0};
    }
    const struct ls_pulled piece = {owned, (const unsigned char *)(from ? from + begin * width : NULL)};
    const struct ls_pull pull = {"rows", &piece, 1, 0, (unsigned char *)fetching->scratch};
    return ls_group_pull(group, &pull);
}

static void place_piece(const struct fetching *fetching, float *to) {
    size_t width = (size_t)fetching->terms->width, servers = (size_t)fetching->layout.holders;
    const float *at = fetching->scratch;
    for (size_t s = 0; s < servers; s++)
        for (size_t i = fetching->begin; i < fetching->end; i++, at += width)
            if (i < ls_layout_rows(&fetching->layout, fetching->terms->rows, (int)s))
                memcpy(to + (i * servers + s) * width, at, width * sizeof(*to));
}

static ls_status fetch_blob(struct ls_group *group, struct fetching *fetching, const float *from, float *to) {
    size_t all = (size_t)fetching->layout.holders * (size_t)fetching->terms->width;
    size_t each = ls_layout_rows(&fetching->layout, fetching->terms->rows, 0), step = PIECE / all;
    if (!step) step = 1;
    LS_CLEANUP(ls_free_pointer) float *scratch = to ? ls_alloc_aligned(step * all * sizeof(float)) : NULL;
    if (to && !scratch) return ls_fail_memory("rows", step * all * sizeof(float));
    ls_status status = LS_OK;
    fetching->scratch = scratch;
    for (fetching->begin = 0; fetching->begin < each && !status; fetching->begin = fetching->end) {
        fetching->end = fetching->begin + step < each ? fetching->begin + step : each;
        status = fetch_piece(group, fetching, from);
        if (!status && to) place_piece(fetching, to);
    }
    return status;
}

ls_status ls_row_calls_fetch(struct ls_group *group, const struct ls_terms_model *terms,
                             const struct ls_holding *holding, const struct ls_shard_part *parts) {
    const struct ls_layout layout = ls_layout_of(terms, ls_group_serving(group));
    ls_status status = LS_OK;
    for (size_t t = 0; t < terms->table_count; t++)
        for (int b = 0; b <= terms->moments && !status; b++) {
            const struct ls_terms_table *table = &terms->tables[t];
            struct fetching fetching = {.layout = layout, .terms = table};
            float *to = parts ? parts[ls_part_of_table(terms->moments, terms->table_count, t, b)].copy : NULL;
            status = fetch_blob(group, &fetching, holding ? holding->tables[t]->blobs[b] : NULL, to);
        }
    return status;
}
