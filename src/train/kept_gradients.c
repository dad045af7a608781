/* A page goes when its last element is reduced and it has no element that is kept. In the kernel a page is zeroed when
 * it comes, and large ones cost the least: so large blobs have those. */
#define _GNU_SOURCE
#include "train/kept_gradients.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/shape.h"
#include "model/plan.h"
#include "strategy/strategy.h"
#include "train/gathered.h"
#include "train/step.h"

#define HUGE_PAGE   ((size_t)2 << 20)
#define LEAST_LARGE ((size_t)4 << 20) /* bytes of a blob with large pages */

/* ---- pages ---- */

static size_t down(size_t bytes, size_t page) {
    return bytes / page * page;
}

static size_t up(size_t bytes, size_t page) {
    return down(bytes + page - 1, page);
}

/* Workers that hold all keep all. */
static bool divides(const struct ls_shards_of *of) {
    return of->shard == LS_SHARDING_GRADIENTS && of->copies < of->workers;
}

bool ls_kept_gradients_are(const ls_model *model) {
    const struct ls_shards_of here = ls_shards_here(model);
    return divides(&here);
}

static size_t blob_bytes(const ls_model *model) {
    return (model->built.summed_count + LS_EXTRAS) * sizeof(float);
}

size_t ls_kept_gradients_page(const ls_model *model) {
    return blob_bytes(model) < LEAST_LARGE ? (size_t)sysconf(_SC_PAGESIZE) : HUGE_PAGE;
}

/* Large pages lie within a replica's blob. Others stay small, so that what is given back is no part of a large one. */
static void size_pages(const struct ls_bytes *memory, size_t blob, size_t page) {
    unsigned char *from = memory->data;
    size_t large = page == HUGE_PAGE ? down(blob, page) : 0, stride = up(blob, page);
    (void)madvise(from, memory->size, MADV_NOHUGEPAGE);
    for (size_t at = 0; large && at < memory->size; at += stride) (void)madvise(from + at, large, MADV_HUGEPAGE);
}

ls_status ls_kept_gradients_new(ls_model *model, size_t size) {
    size_t page = ls_kept_gradients_page(model), all = up(size, page) + page;
    unsigned char *taken = size > SIZE_MAX - 2 * page ? MAP_FAILED
                                                      : mmap(NULL, all, PROT_READ | PROT_WRITE,
                                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (taken == MAP_FAILED) return ls_fail_memory("gradients", size);
    size_t before = up((uintptr_t)taken, page) - (uintptr_t)taken;
    if (before) (void)munmap(taken, before);
    if (before < page) (void)munmap(taken + all - page + before, page - before);
    model->bound.kept = (struct ls_bytes){taken + before, all - page};
    size_pages(&model->bound.kept, blob_bytes(model), page);
    return LS_OK;
}

void ls_kept_gradients_free(ls_model *model) {
    if (model->bound.kept.data) (void)munmap(model->bound.kept.data, model->bound.kept.size);
    model->bound.kept = (struct ls_bytes){0};
}

/* ---- what is kept ---- */

/* Of one worker. All numbers but elements are bytes of a replica's blob. */
struct kept {
    struct ls_shards_division division; /* in elements */
    int worker, ranges;                 /* it keeps so many */
    size_t page, most;                  /* behind most all is kept: statistics and extras */
};

static void describe_kept(const ls_model *model, const struct ls_shards_of *of, bool first, struct kept *kept) {
    size_t page = ls_kept_gradients_page(model);
    *kept = (struct kept){.worker = of->worker, .page = page};
    ls_shards_divide(model, of, &kept->division);
    kept->most = down(kept->division.whole.end * sizeof(float), page);
    kept->ranges = first ? kept->division.layout.copies : 0;
}

/* The whole pages of a range of elements. */
static struct ls_range pages_between(const struct kept *kept, struct ls_range range) {
    if (range.begin == range.end) return (struct ls_range){0, 0};
    return (struct ls_range){down(range.begin * sizeof(float), kept->page), up(range.end * sizeof(float), kept->page)};
}

static struct ls_range pages_of(const struct kept *kept, int number) {
    const struct ls_layout *layout = &kept->division.layout;
    return pages_between(kept, ls_layout_range(layout, 0, ls_layout_before(layout, kept->worker, number)));
}

/* Finds the end of the pages from at on that are kept alike. */
static size_t next_edge(const struct kept *kept, size_t at, size_t end, bool *is_kept) {
    *is_kept = false;
    for (int i = 0; i < kept->ranges; i++) {
        struct ls_range range = pages_of(kept, i);
        bool within = range.begin <= at && at < range.end;
        *is_kept = *is_kept || within;
        if (within && range.end < end) end = range.end;
        if (range.begin > at && range.begin < end) end = range.begin;
    }
    return end;
}

/* Counts the bytes of pages that are not kept. With a blob it gives them back; the kernel may refuse that, and they
 * stay. */
static size_t sweep(const struct kept *kept, struct ls_range pages, unsigned char *blob) {
    size_t count = 0;
    bool is_kept;
    if (pages.end > kept->most) pages.end = kept->most;
    for (size_t at = pages.begin, end; at < pages.end; at = end) {
        end = next_edge(kept, at, pages.end, &is_kept);
        if (!is_kept) count += end - at;
        if (!is_kept && blob) (void)madvise(blob + at, end - at, MADV_DONTNEED);
    }
    return count;
}

static void give_back(const ls_model *model, struct ls_range pages) {
    const struct ls_shards_of of = ls_shards_here(model);
    struct kept kept;
    for (int i = 0; i < model->strategy->local_count; i++) {
        describe_kept(model, &of, !i, &kept);
        (void)sweep(&kept, pages, (unsigned char *)model->built.replicas[i].gradients);
    }
}

/* ---- in a step ---- */

/* The page in which it begins has elements of the next bucket; that in which it ends has none any more. */
static struct ls_range pages_of_bucket(const ls_model *model, size_t bucket) {
    const struct ls_bucket *range = &model->bound.buckets[bucket];
    size_t page = ls_kept_gradients_page(model);
    return (struct ls_range){up(range->begin * sizeof(float), page), up(range->end * sizeof(float), page)};
}

static void reduced(void *context, size_t bucket) {
    give_back(context, pages_of_bucket(context, bucket));
}

/* Replicas that compute in turn, or meet behind their plans, would wait for each other. */
static bool may_wait(const ls_model *model) {
    bool turns = model->strategy->local_count > model->strategy->device_count;
    return !turns && ls_sync_batch_norm_first(model) == model->spec.layer_count;
}

void ls_kept_gradients_follow(ls_model *model, struct ls_reducer_config *config) {
    if (!ls_kept_gradients_are(model)) return;
    config->reduced = reduced;
    config->context = model;
    config->in_flight = may_wait(model);
}

void ls_kept_gradients_give_back(const ls_model *model) {
    give_back(model, (struct ls_range){0, blob_bytes(model)});
}

/* ---- how much ---- */

/* The pages that are there while a plan computes. */
struct computing {
    const ls_model *model;
    const struct kept *kept;
    struct ls_range early; /* elements of variables that have a part of their gradients before others have theirs */
    size_t ready;          /* elements from here on are final */
    size_t most;           /* bytes that are not kept, so far */
};

/* Buckets that are given are reduced, all but the last one. */
static size_t end_in_flight(const struct computing *computing) {
    const struct ls_model_bound *bound = &computing->model->bound;
    size_t end = computing->kept->division.whole.end;
    for (size_t b = 0; b < bound->bucket_count && bound->buckets[b].begin >= computing->ready; b++)
        end = bound->buckets[b].end;
    return end;
}

/* Gradients from offset on are written. */
static void count_in_flight(struct computing *computing, size_t offset) {
    struct ls_range pages = pages_between(computing->kept, (struct ls_range){offset, end_in_flight(computing)});
    struct ls_range early = pages_between(computing->kept, computing->early);
    if (early.end > pages.begin) early.end = pages.begin;
    size_t bytes = sweep(computing->kept, pages, NULL);
    if (early.begin < early.end) bytes += sweep(computing->kept, early, NULL);
    if (bytes > computing->most) computing->most = bytes;
}

/* A tied table has the gradient of the head long before it is final. */
static void note_early(struct computing *computing, const struct ls_op *op, size_t offset) {
    struct ls_range *early = &computing->early;
    for (int t = 0; t < LS_OP_TENSORS; t++) {
        const struct ls_tensor *tensor = &op->tensors[t];
        size_t begin = tensor->within / sizeof(float), end = begin + (size_t)ls_shape_count(&tensor->shape);
        if (tensor->buffer != -LS_GIVEN_GRADIENTS || begin >= offset) continue;
        if (early->begin == early->end || begin < early->begin) early->begin = begin;
        if (end > early->end) early->end = end;
    }
}

/* The steps from one to the next whose end is told: they run one by one, or several together. Returns where they end.
 */
static size_t count_told(struct computing *computing, const struct ls_plan *plan, size_t first) {
    size_t end = first, offset = LS_NOT_READY;
    while (end < plan->count && offset == LS_NOT_READY) {
        size_t next = plan->steps[end].end ? plan->steps[end].end : end + 1;
        for (; end < next; end++)
            if (plan->steps[end].ready < offset) offset = plan->steps[end].ready;
    }
    if (offset == LS_NOT_READY) return end;
    for (size_t i = first; i < end; i++) note_early(computing, &plan->steps[i].op, offset);
    count_in_flight(computing, offset);
    computing->ready = offset;
    return end;
}

static size_t most_in_flight(const ls_model *model, const struct kept *kept) {
    struct computing computing = {.model = model, .kept = kept};
    const struct ls_model_replica *first = model->built.replicas;
    for (size_t p = 0; first && p < LS_PLANS_KEPT; p++) {
        const struct ls_plan *plan = first->plans[p].training ? first->plans[p].plan : NULL;
        computing.ready = kept->division.whole.end;
        computing.early = (struct ls_range){0, 0};
        for (size_t at = 0; plan && at < plan->count;) at = count_told(&computing, plan, at);
    }
    return computing.most;
}

/* Of new variables that do not fit elsewhere. */
static size_t most_gathered(const ls_model *model, const struct ls_shards_of *of, size_t arena,
                            const struct kept *kept) {
    struct ls_range others = ls_gathered_find(model, of, ls_shards_left_bytes(model, of, arena)).others;
    return sweep(kept, pages_between(kept, others), NULL);
}

static bool is_whole(const ls_model *model, const struct ls_shards_of *of) {
    return !divides(of) || !may_wait(model) || model->progress.step.rule.gradient_accumulation_steps > 1;
}

size_t ls_kept_gradients_bytes(const ls_model *model, const struct ls_shards_of *of, size_t arena, bool first) {
    const struct ls_range all = {0, blob_bytes(model)};
    struct kept kept;
    if (is_whole(model, of)) return all.end;
    describe_kept(model, of, first, &kept);
    size_t computed = most_in_flight(model, &kept), gathered = first ? most_gathered(model, of, arena, &kept) : 0;
    return all.end - sweep(&kept, all, NULL) + (computed > gathered ? computed : gathered);
}
