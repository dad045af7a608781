/* Reduce-scatter in shared memory: each rank folds its part of the inputs of all and writes it to its own output.
 *  - small: every rank has copied its input into its slot;
 *  - direct: all inputs lie in regions and are read there; then all meet, for nobody may overwrite what others read;
 *  - staged: round by round through the stages, in which every part has a place of its own, so that all have something
 *    to fold in every round; while one half of the stages is folded the other is filled. */
#include "collective/shm/shm_calls.h"

#include <string.h>

#include "collective/schedule/fold.h"
#include "collective/shm/leaves.h"

enum { PIECE = 16 * 1024 }; /* bytes that stay in the first-level cache until they are divided */

struct scattering {
    struct ls_shared_call opened;
    struct ls_shared *shared;
    const struct ls_scatter *scatter;
    const struct ls_call *call;
    size_t stride; /* bytes of a part in a stage */
};

/* size bytes at shared->leaves, one a rank, into the output from byte at on. */
static void fold_part(const struct scattering *scattering, size_t at, size_t size) {
    const struct ls_scatter *scatter = scattering->scatter;
    const struct ls_fold fold = {.combine = scattering->call->combine,
                                 .element = scatter->element,
                                 .n = scatter->size,
                                 .count = scatter->size,
                                 .data = (const void *const *)scattering->shared->leaves};
    unsigned char *output = (unsigned char *)scatter->output + at;
    for (size_t done = 0; done < size; done += PIECE) {
        size_t piece = size - done < PIECE ? size - done : PIECE;
        ls_fold_range(&fold, output + done, done, piece);
        if (scatter->divide) ls_reduce_divide(scatter->dtype, output + done, piece / scatter->element, scatter->divide);
    }
}

static size_t own_bytes(const struct scattering *scattering) {
    return ls_scatter_part(scattering->scatter, scattering->scatter->rank);
}

/* ---- small ---- */

static bool is_small_total(const struct ls_shared *shared, const struct ls_scatter *scatter) {
    return scatter->total <= shared->board.small;
}

static void fold_small(const struct scattering *scattering) {
    for (int i = 0; i < scattering->scatter->size; i++)
        scattering->shared->leaves[i] = ls_shared_call_small(&scattering->opened, i) + scattering->scatter->start;
    fold_part(scattering, 0, own_bytes(scattering));
}

/* ---- direct ---- */

static bool is_direct(const struct scattering *scattering) {
    for (int i = 0; i < scattering->scatter->size; i++)
        if (ls_shared_call_read(&scattering->opened, i)->region < 0) return false;
    return true;
}

static ls_status fold_direct(const struct scattering *scattering) {
    const struct ls_scatter *scatter = scattering->scatter;
    for (int i = 0; i < scatter->size; i++) {
        ls_status status =
            ls_shared_call_find(&scattering->opened, i, 0, scatter->total, &scattering->shared->leaves[i]);
        if (status) return status;
        scattering->shared->leaves[i] += scatter->start;
    }
    fold_part(scattering, 0, own_bytes(scattering));
    return ls_shm_barrier(&scattering->opened.place, false);
}

/* ---- staged ---- */

static size_t largest_part(const struct ls_scatter *scatter) {
    size_t most = 0;
    for (int i = 0; i < scatter->size; i++)
        if (ls_scatter_part(scatter, i) > most) most = ls_scatter_part(scatter, i);
    return most;
}

/* The number of bytes of a part that go through its place in the round that begins at offset. */
static size_t in_round(const struct scattering *scattering, int rank, size_t offset) {
    size_t bytes = ls_scatter_part(scattering->scatter, rank), left = offset < bytes ? bytes - offset : 0;
    return left < scattering->stride ? left : scattering->stride;
}

static unsigned char *stage_of(const struct scattering *scattering, int rank, size_t offset) {
    return ls_shared_stage(scattering->shared, rank, (int)(offset / scattering->stride & 1));
}

static void fill_stage(const struct scattering *scattering, size_t offset) {
    const struct ls_scatter *scatter = scattering->scatter;
    const unsigned char *input = scatter->input;
    unsigned char *stage = stage_of(scattering, scatter->rank, offset);
    for (int i = 0; i < scatter->size; i++) {
        size_t size = in_round(scattering, i, offset);
        if (size) memcpy(stage + (size_t)i * scattering->stride, input + offset, size);
        if (ls_scatter_part(scatter, i)) input += ls_scatter_part(scatter, i);
    }
}

static void fold_stages(const struct scattering *scattering, size_t offset) {
    const struct ls_scatter *scatter = scattering->scatter;
    for (int i = 0; i < scatter->size; i++)
        scattering->shared->leaves[i] = stage_of(scattering, i, offset) + (size_t)scatter->rank * scattering->stride;
    fold_part(scattering, offset, in_round(scattering, scatter->rank, offset));
}

static ls_status fold_staged(struct scattering *scattering) {
    size_t most = largest_part(scattering->scatter);
    scattering->stride = scattering->shared->board.stage / (size_t)scattering->scatter->size / LS_LINE * LS_LINE;
    fill_stage(scattering, 0);
    ls_status status = ls_shm_barrier(&scattering->opened.place, false);
    for (size_t offset = 0; offset < most && !status; offset += scattering->stride) {
        fold_stages(scattering, offset);
        fill_stage(scattering, offset + scattering->stride);
        status = ls_shm_barrier(&scattering->opened.place, false);
    }
    return status;
}

/* ---- the whole ---- */

static void post(const struct scattering *scattering, bool small) {
    const struct ls_scatter *scatter = scattering->scatter;
    struct ls_shared_post *posted = ls_shared_call_post(&scattering->opened);
    if (!small)
        (void)ls_shared_call_offer(&scattering->opened, posted, 0, scatter->input, scatter->total);
    else if (scatter->total)
        memcpy(ls_shared_call_small(&scattering->opened, scatter->rank), scatter->input, scatter->total);
}

ls_status ls_shm_reduce_scatter(const struct ls_scatter *scatter, struct ls_shared *shared,
                                const struct ls_call *call) {
    struct scattering scattering = {.shared = shared, .scatter = scatter, .call = call};
    bool small = is_small_total(shared, scatter);
    ls_shared_call_begin(&scattering.opened, shared, call, scatter->size);
    post(&scattering, small);
    ls_status status = ls_shared_call_open(&scattering.opened);
    if (status) return status;
    if (!small) return is_direct(&scattering) ? fold_direct(&scattering) : fold_staged(&scattering);
    fold_small(&scattering);
    return LS_OK;
}
