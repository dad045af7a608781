/* Matches the collectives of all ranks by their key, up to the first that differs on some rank.
 *
 * Clocks: nobody can leave an all-reduce before all have come, so all leave it within about the time that a message
 * takes. The offset of a rank's clock is the median over the collectives in common of (the first rank's end - its end),
 * kept within the bounds that are certain: each end lies after every begin. Half the distance of the bounds is told as
 * uncertainty. Ranks under one kernel have one clock. */
#include "observe/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/new.h"

static int compare_keys(struct ls_timeline_key a, struct ls_timeline_key b) {
    if (a.major != b.major) return a.major < b.major ? -1 : 1;
    return (a.minor > b.minor) - (a.minor < b.minor);
}

static int by_key(const void *left, const void *right) {
    const struct ls_timeline_span *const *a = left, *const *b = right;
    int order = compare_keys((*a)->key, (*b)->key);
    return order ? order : ((*a)->begun > (*b)->begun) - ((*a)->begun < (*b)->begun);
}

static int find_key(const void *key, const void *element) {
    const struct ls_timeline_span *const *span = element;
    return compare_keys(*(const struct ls_timeline_key *)key, (*span)->key);
}

const struct ls_timeline_span *ls_timeline_find(const struct ls_timeline_rank *rank, struct ls_timeline_key key) {
    struct ls_timeline_span **found =
        rank->count ? bsearch(&key, rank->calls, rank->count, sizeof(struct ls_timeline_span *), find_key) : NULL;
    return found ? *found : NULL;
}

/* ---- files to ranks ---- */

static ls_status collect_calls(struct ls_timeline_rank *rank, const struct ls_timeline_file *file) {
    rank->calls = ls_alloc_array(file->span_count + 1, sizeof(struct ls_timeline_span *));
    if (!rank->calls) return ls_fail_memory("a rank's collectives", file->span_count * sizeof(*rank->calls));
    rank->file = file;
    for (size_t i = 0; i < file->span_count; i++)
        if (file->spans[i].collective) rank->calls[rank->count++] = &file->spans[i];
    qsort(rank->calls, rank->count, sizeof(struct ls_timeline_span *), by_key);
    size_t kept = 0;
    for (size_t i = 0; i < rank->count; i++)
        if (!kept || compare_keys(rank->calls[kept - 1]->key, rank->calls[i]->key))
            rank->calls[kept++] = rank->calls[i];
    rank->count = kept;
    return LS_OK;
}

static ls_status check_files(const struct ls_timeline_file *files, int count) {
    for (int i = 1; i < count; i++) {
        if (files[i].workers != files[0].workers)
            return ls_fail(LS_INVALID_ARGUMENT, "'%s' is of %d workers, '%s' of %d: give the files of one run",
                           files[0].path, files[0].workers, files[i].path, files[i].workers);
        for (int j = 0; j < i; j++)
            if (files[i].rank == files[j].rank && files[i].is_flight == files[j].is_flight)
                return ls_fail(LS_INVALID_ARGUMENT, "'%s' and '%s' are both of rank %d: give the files of one run",
                               files[j].path, files[i].path, files[i].rank);
    }
    return LS_OK;
}

/* If there is any flight record, collectives are taken from those: their keys are not the timelines'. */
static ls_status fill_ranks(struct ls_timeline *timeline) {
    bool flight = false;
    ls_status status = LS_OK;
    for (int i = 0; i < timeline->file_count; i++) flight = flight || timeline->files[i].is_flight;
    for (int i = 0; i < timeline->file_count && !status; i++) {
        const struct ls_timeline_file *file = &timeline->files[i];
        if (file->is_flight == flight) status = collect_calls(&timeline->ranks[file->rank], file);
        timeline->known += file->is_flight == flight;
    }
    return status;
}

/* ---- collectives in common ---- */

static struct ls_timeline_rank *first_rank(const struct ls_timeline *timeline) {
    int rank = 0;
    while (!timeline->ranks[rank].file) rank++;
    return &timeline->ranks[rank];
}

/* The spans of all known ranks at the key of one of them; spans[workers] has NULL for an unknown rank. Returns false
 * unless all have it. */
static bool find_all(const struct ls_timeline *timeline, struct ls_timeline_key key,
                     const struct ls_timeline_span **spans) {
    for (int rank = 0; rank < timeline->workers; rank++) {
        const struct ls_timeline_rank *own = &timeline->ranks[rank];
        spans[rank] = own->file ? ls_timeline_find(own, key) : NULL;
        if (own->file && !spans[rank]) return false;
    }
    return true;
}

/* The first place where one of the ranks before has another collective than rank, if it is earlier than what is known.
 */
static void look_for_difference(struct ls_timeline *timeline, int rank) {
    const struct ls_timeline_rank *own = &timeline->ranks[rank];
    for (size_t i = 0; i < own->count; i++) {
        const struct ls_timeline_span *other = NULL;
        struct ls_timeline_key key = own->calls[i]->key;
        if (timeline->differs && compare_keys(key, timeline->difference) >= 0) return;
        for (int before = 0; before < rank && !other; before++) other = ls_timeline_find(&timeline->ranks[before], key);
        if (!other || !strcmp(other->label, own->calls[i]->label)) continue;
        timeline->differs = true;
        timeline->difference = key;
    }
}

/* Calls visit for each that all known ranks have, in order, until they differ. */
static void for_each(struct ls_timeline *timeline, const struct ls_timeline_span **spans,
                     void (*visit)(struct ls_timeline *timeline, const struct ls_timeline_span *const *spans,
                                   void *context),
                     void *context) {
    const struct ls_timeline_rank *first = first_rank(timeline);
    for (size_t i = 0; i < first->count; i++) {
        struct ls_timeline_key key = first->calls[i]->key;
        if (timeline->differs && compare_keys(key, timeline->difference) >= 0) return;
        if (find_all(timeline, key, spans)) visit(timeline, spans, context);
    }
}

/* ---- clocks ---- */

struct alignment {
    int rank, first;
    int64_t *deltas; /* the first rank's end - the rank's */
    size_t count;
    int64_t low, high; /* the offset lies between */
};

/* With o the offset wanted, own time t happens at t + o of the first rank. Each rank's end lies after the other's
 * begin: own->ended + o >= other->begun gives low, and other->ended >= own->begun + o gives high. Each collective may
 * narrow both. A broadcast gives no bound (meets_all is false): its root may leave before others come. NTP bounds the
 * offset by the same argument with a request and its answer (RFC 5905, section 8). */
static void note_ends(struct ls_timeline *timeline, const struct ls_timeline_span *const *spans, void *context) {
    struct alignment *alignment = context;
    const struct ls_timeline_span *own = spans[alignment->rank], *other = spans[alignment->first];
    (void)timeline;
    if (!own->through || !other->through || !own->meets_all) return;
    alignment->deltas[alignment->count++] = other->ended - own->ended;
    if (other->begun - own->ended > alignment->low) alignment->low = other->begun - own->ended;
    if (other->ended - own->begun < alignment->high) alignment->high = other->ended - own->begun;
}

static int by_value(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* A median, for one rank's late wake-up after a collective makes one delta wrong by any amount. Clocks that drift
 * against each other over a long run can leave low above high. No single offset is certain then, so the median goes
 * uncut. */
static void set_offset(struct ls_timeline_rank *rank, struct alignment *alignment) {
    if (!alignment->count) return;
    qsort(alignment->deltas, alignment->count, sizeof(*alignment->deltas), by_value);
    int64_t offset = alignment->deltas[alignment->count / 2];
    rank->aligned = true;
    if (alignment->low <= alignment->high) {
        if (offset < alignment->low) offset = alignment->low;
        if (offset > alignment->high) offset = alignment->high;
        rank->uncertainty = (alignment->high - alignment->low) / 2;
    }
    rank->offset = offset;
}

/* A rank before it with the same clock. */
static const struct ls_timeline_rank *find_twin(const struct ls_timeline *timeline, int rank) {
    const struct ls_timeline_rank *own = &timeline->ranks[rank];
    for (int i = 0; i < rank; i++) {
        const struct ls_timeline_rank *other = &timeline->ranks[i];
        if (other->file && *own->file->clock && !strcmp(own->file->clock, other->file->clock)) return other;
    }
    return NULL;
}

static ls_status align(struct ls_timeline *timeline, int rank, const struct ls_timeline_span **spans) {
    struct ls_timeline_rank *own = &timeline->ranks[rank], *first = first_rank(timeline);
    const struct ls_timeline_rank *twin = find_twin(timeline, rank);
    if (own == first) {
        own->aligned = true;
    } else if (twin) {
        own->aligned = twin->aligned;
        own->offset = twin->offset;
        own->uncertainty = twin->uncertainty;
    } else {
        LS_CLEANUP(ls_free_pointer) int64_t *deltas = ls_alloc_array(first->count + 1, sizeof(*deltas));
        if (!deltas) return ls_fail_memory("a clock's offsets", first->count * sizeof(*deltas));
        struct alignment alignment = {rank, (int)(first - timeline->ranks), deltas, 0, INT64_MIN, INT64_MAX};
        for_each(timeline, spans, note_ends, &alignment);
        set_offset(own, &alignment);
    }
    return LS_OK;
}

/* ---- sums ---- */

/* [workers] where each rank's collective in common before this one ended; 0: this is the first. A rank's time falls in
 * three: compute from its last common collective's end to its begin of this one, wait until the last rank begins
 * (latest), wire from then on. ended caps the wait, since an offset's error may put latest after the rank's own end.
 * late counts latest - second: what the others would gain if the last rank came with the last but one. */
static void add_up(struct ls_timeline *timeline, const struct ls_timeline_span *const *spans, void *context) {
    int64_t *before = context, latest = INT64_MIN, second = INT64_MIN;
    int last = -1;
    for (int i = 0; i < timeline->workers; i++) {
        if (!spans[i]) continue;
        if (!spans[i]->through) return;
        int64_t begun = spans[i]->begun + timeline->ranks[i].offset;
        if (begun > latest) {
            second = latest;
            latest = begun;
            last = i;
        } else if (begun > second) {
            second = begun;
        }
    }
    timeline->common++;
    if (second != INT64_MIN) {
        timeline->ranks[last].came_last++;
        timeline->ranks[last].late += (double)(latest - second);
    }
    for (int i = 0; i < timeline->workers; i++) {
        if (!spans[i]) continue;
        struct ls_timeline_rank *rank = &timeline->ranks[i];
        int64_t begun = spans[i]->begun + rank->offset, ended = spans[i]->ended + rank->offset;
        int64_t came = latest < ended ? latest : ended;
        rank->wait += (double)(came - begun);
        rank->wire += (double)(ended - came);
        if (before[i] && begun > before[i]) rank->compute += (double)(begun - before[i]);
        before[i] = ended;
    }
}

static ls_status work_out(struct ls_timeline *timeline) {
    size_t workers = (size_t)timeline->workers;
    LS_CLEANUP(ls_free_pointer)
    const struct ls_timeline_span **spans = ls_alloc_array(workers, sizeof(struct ls_timeline_span *));
    LS_CLEANUP(ls_free_pointer) int64_t *before = ls_alloc_array(workers, sizeof(*before));
    if (!spans || !before) return ls_fail_memory("a summary", workers * sizeof(*spans));
    ls_status status = LS_OK;
    for (int rank = 1; rank < timeline->workers; rank++) look_for_difference(timeline, rank);
    for (int rank = 0; rank < timeline->workers && !status; rank++)
        if (timeline->ranks[rank].file) status = align(timeline, rank, spans);
    if (!status) for_each(timeline, spans, add_up, before);
    return status;
}

/* ---- the whole ---- */

ls_status ls_timeline_new(struct ls_timeline_file *files, int count, struct ls_timeline **timeline) {
    ls_status status = check_files(files, count);
    if (status) return status;
    LS_NEW(struct ls_timeline, made, "a timeline");
    *made = (struct ls_timeline){.workers = files[0].workers, .files = files, .file_count = count};
    made->ranks = ls_alloc_array((size_t)made->workers, sizeof(*made->ranks));
    status = made->ranks ? fill_ranks(made) : ls_fail_memory("a timeline", sizeof(*made->ranks));
    if (!status) status = work_out(made);
    return LS_HAND_OVER(status, timeline, made, ls_timeline_free(made));
}

void ls_timeline_free(struct ls_timeline *timeline) {
    if (!timeline) return;
    for (int rank = 0; timeline->ranks && rank < timeline->workers; rank++) ls_free(timeline->ranks[rank].calls);
    ls_free(timeline->ranks);
    ls_free(timeline);
}
