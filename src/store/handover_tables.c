/* Each piece is broadcast, and each server takes its rows of it. So nobody needs memory for a whole table beside its
 * own rows. */
#include "store/handover_tables.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "collective/collectives.h"

#define PIECE ((size_t)1 << 18) /* floats */

/* Rows first, first + stride, ... of one blob, from the root's memory: from is NULL elsewhere. */
struct piece {
    size_t table;
    int blob, root;
    int64_t first, stride;
    size_t count;
    const float *from;
};

static ls_status bring(const struct ls_table_move *move, const struct piece *piece, float *scratch, size_t *moved) {
    size_t width = (size_t)move->terms->tables[piece->table].width;
    if (piece->from && ls_group_rank(move->group) == piece->root)
        memcpy(scratch, piece->from, piece->count * width * sizeof(float));
    *moved += piece->count * width * sizeof(float);
    ls_status status = ls_group_broadcast(move->group, LS_BROADCAST("rows to the parameter servers", scratch,
                                                                    piece->count * width, LS_FLOAT32, piece->root));
    for (size_t i = 0; i < piece->count && !status && move->next; i++)
        ls_table_put(move->next->tables[piece->table], piece->blob, piece->first + (int64_t)i * piece->stride,
                     scratch + i * width);
    return status;
}

/* All rows of a piece, a part at a time. */
static ls_status bring_all(const struct ls_table_move *move, struct piece piece, size_t *moved) {
    size_t width = (size_t)move->terms->tables[piece.table].width, most = PIECE / width, left = piece.count;
    if (!most) most = 1;
    LS_CLEANUP(ls_free_pointer) float *scratch = ls_alloc_aligned(most * width * sizeof(float));
    if (!scratch) return ls_fail_memory("rows on their way to a parameter server", most * width * sizeof(float));
    ls_status status = LS_OK;
    while (left && !status) {
        piece.count = left < most ? left : most;
        status = bring(move, &piece, scratch, moved);
        left -= piece.count;
        piece.first += (int64_t)piece.count * piece.stride;
        if (piece.from) piece.from += piece.count * width;
    }
    return status;
}

/* The rows of one owner, as a server of the division before has them; NULL: it has not. */
static const float *find_rows(const struct ls_table_move *move, size_t table, int blob, int owner) {
    if (!move->own) return NULL;
    const struct ls_table *own = move->own->tables[table];
    size_t place = ls_table_place(own, owner);
    return place == LS_TABLE_NOWHERE ? NULL : own->blobs[blob] + place * own->width;
}

ls_status ls_handover_tables_from_servers(const struct ls_table_move *move, size_t *moved) {
    const struct ls_layout before = ls_layout_of(move->terms, move->old);
    ls_status status = LS_OK;
    for (size_t t = 0; t < move->terms->table_count; t++)
        for (int b = 0; b <= move->terms->moments; b++)
            for (int owner = 0; owner < move->old && !status; owner++)
                status = bring_all(move,
                                   (struct piece){t, b, move->holders[owner], owner, move->old,
                                                  ls_layout_rows(&before, move->terms->tables[t].rows, owner),
                                                  find_rows(move, t, b, owner)},
                                   moved);
    return status;
}

ls_status ls_handover_tables_from_worker(const struct ls_table_move *move, size_t *moved) {
    size_t tables = move->terms->table_count;
    ls_status status = LS_OK;
    for (size_t t = 0; t < move->terms->table_count && move->next; t++) ls_table_keep(move->next->tables[t]);
    for (size_t t = 0; t < move->terms->table_count; t++)
        for (int b = 0; b <= move->terms->moments && !status; b++) {
            const struct ls_terms_table *table = &move->terms->tables[t];
            const float *at = move->tables ? move->tables[(size_t)b * tables + t].copy : NULL;
            status = bring_all(move, (struct piece){t, b, move->root, 0, 1, (size_t)table->rows, at}, moved);
        }
    return status;
}

void ls_handover_tables_draw(const struct ls_table_move *move) {
    for (size_t t = 0; t < move->terms->table_count && move->next; t++)
        ls_table_draw(move->next->tables[t], &move->terms->tables[t].fill);
}
