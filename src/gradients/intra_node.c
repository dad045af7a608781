/* Reduction over the GPUs of one node. Each bucket of a group is cut into parts, one for each of its GPUs (or one part
 * for the first GPU). A part's GPU takes it from the others, adds in the order of the tree, and stores the sum. The
 * others take the sum from there. All of it is queued beside the ops, behind marks. Only the host waits. */
#include "gradients/intra_node.h"

#include "base/new.h"
#include "collective/schedule/tree.h"
#include "gradients/adder.h"
#include "strategy/strategy.h"

#define LINE 16 /* elements: parts begin on cache lines */

struct ls_intra_node {
    ls_strategy *strategy; /* borrowed */
    int replicas;          /* of this worker */
    const struct ls_bucket *buckets;
    size_t count, begun;  /* begun: of the present step */
    int *first;           /* [workers + 1] */
    bool alone;           /* no other workers */
    int slot_count;       /* a device */
    size_t slot_elements; /* of one */
    float *gradients[LS_MAX_LOCAL_DEVICES], *sums[LS_MAX_LOCAL_DEVICES];
    float *slots[LS_MAX_LOCAL_DEVICES]; /* device; owns */
};

/* ---- sums ---- */

static int sums_of(const ls_strategy *strategy, int worker) {
    int replicas = strategy->first[worker + 1] - strategy->first[worker];
    return (replicas + strategy->node_replicas - 1) / strategy->node_replicas;
}

int ls_intra_node_sums(const ls_strategy *strategy) {
    return sums_of(strategy, strategy->runtime->rank);
}

const int *ls_intra_node_first(const struct ls_intra_node *node) {
    return node->first;
}

/* ---- parts ---- */

static bool is_to_one(const ls_strategy *strategy) {
    return strategy->options.cross_device_ops == LS_REDUCTION_TO_ONE_DEVICE;
}

/* Elements [begin, end) of the blobs of replicas first to first + count - 1. owner adds them. */
struct part {
    size_t bucket, begin, end;
    int group, first, count, owner;
};
typedef ls_status part_fn(struct ls_intra_node *node, const struct part *part);

/* The begin of the i-th part of a bucket. */
static size_t begin_of_part(const struct ls_bucket *range, int i, int parts) {
    size_t at = range->begin + (range->end - range->begin) * (size_t)i / (size_t)parts;
    if (i == 0 || i == parts) return at;
    at = at / LINE * LINE;
    return at > range->begin ? at : range->begin;
}

static ls_status for_parts_of_group(struct ls_intra_node *node, size_t bucket, int group, part_fn *act) {
    const ls_strategy *strategy = node->strategy;
    int first = group * strategy->node_replicas, rest = node->replicas - first;
    int count = rest < strategy->node_replicas ? rest : strategy->node_replicas;
    int parts = is_to_one(strategy) ? 1 : count;
    ls_status status = LS_OK;
    for (int i = 0; !status && i < parts; i++) {
        const struct part part = {.bucket = bucket,
                                  .begin = begin_of_part(&node->buckets[bucket], i, parts),
                                  .end = begin_of_part(&node->buckets[bucket], i + 1, parts),
                                  .group = group,
                                  .first = first,
                                  .count = count,
                                  .owner = first + i};
        if (part.begin < part.end) status = act(node, &part);
    }
    return status;
}

static ls_status for_parts(struct ls_intra_node *node, size_t bucket, part_fn *act) {
    int groups = ls_intra_node_sums(node->strategy);
    ls_status status = LS_OK;
    for (int g = 0; !status && g < groups; g++) status = for_parts_of_group(node, bucket, g, act);
    return status;
}

static struct ls_device *device_of(const struct ls_intra_node *node, int local) {
    return node->strategy->replicas[local].device;
}

static const struct ls_device_queue_ops *queue_of(const struct ls_intra_node *node, int local) {
    return device_of(node, local)->ops->queue;
}

static size_t bytes_of_part(const struct part *part) {
    return (part->end - part->begin) * sizeof(float);
}

/* ---- marks ---- */

/* GIVEN marks each replica's gradients. SUMMED and RETURNED mark the sum and the result of a part's owner. */
enum mark { GIVEN, SUMMED, RETURNED, MARKS };

/* Bucket numbers share marks. A wait for the earlier bucket of a shared mark lasts until the later one is there. */
static int mark_of_intra_node(size_t bucket, enum mark mark) {
    return (int)((bucket * MARKS + mark) % (LS_DEVICE_MARKS / MARKS * MARKS));
}

/* ---- adding ---- */

struct folding {
    const struct ls_intra_node *node;
    const struct part *part;
    ls_status status;
};

static float *slot_of(const struct folding *folding, int slot) {
    const struct ls_intra_node *node = folding->node;
    return node->slots[folding->part->owner] + (size_t)slot * node->slot_elements;
}

/* The address of a replica's part on the owner's device: its own place, or the slot that it is copied to. */
static float *take_sum(struct folding *folding, int local, int slot) {
    const struct ls_intra_node *node = folding->node;
    const struct part *part = folding->part;
    float *from = node->gradients[local] + part->begin;
    if (local == part->owner) return from;
    float *to = slot_of(folding, slot);
    if (!folding->status)
        folding->status = queue_of(node, part->owner)
                              ->fetch(device_of(node, part->owner), to, device_of(node, local),
                                      mark_of_intra_node(part->bucket, GIVEN), from, bytes_of_part(part));
    return to;
}

/* Adds the subtree over the group's replicas [low, high). Slots from slot on are free. Returns the address of the sum.
 * The sum of the whole tree lies in the owner's own place. The left value may lie in slot while the right side is made,
 * so the right side begins at slot + 1. The depth of the tree over count replicas is ceil(log2 count), which bounds the
 * slots. Every add is queued on the owner's device behind the fetches before it; the host waits for none of them. */
static float *fold(struct folding *folding, int low, int high, int slot) {
    const struct part *part = folding->part;
    if (high - low == 1) return take_sum(folding, part->first + low, slot);
    int middle = low + ls_tree_split(high - low);
    const float *left = fold(folding, low, middle, slot), *right = fold(folding, middle, high, slot + 1);
    bool whole = high - low == part->count;
    float *to = whole ? folding->node->gradients[part->owner] + part->begin : slot_of(folding, slot);
    if (!folding->status)
        folding->status = queue_of(folding->node, part->owner)
                              ->add(device_of(folding->node, part->owner), to, left, right, part->end - part->begin);
    return to;
}

/* Copies the sum to the host if other workers wait for it there. */
static ls_status add_intra_node_part(struct ls_intra_node *node, const struct part *part) {
    struct ls_device *owner = device_of(node, part->owner);
    struct folding folding = {node, part, LS_OK};
    float *sum = node->alone ? NULL : node->sums[part->group] + part->begin;
    int given = mark_of_intra_node(part->bucket, GIVEN), summed = mark_of_intra_node(part->bucket, SUMMED);
    folding.status = owner->ops->queue->fetch(owner, NULL, owner, given, NULL, 0);
    const float *own = fold(&folding, 0, part->count, 0);
    if (folding.status) return folding.status;
    return owner->ops->queue->forward(owner, summed, sum, own, sum ? bytes_of_part(part) : 0);
}

static ls_status hand_out(const struct ls_intra_node *node, const struct part *part, enum mark mark) {
    ls_status status = LS_OK;
    for (int i = part->first; !status && i < part->first + part->count; i++)
        if (i != part->owner)
            status = queue_of(node, i)->fetch(device_of(node, i), node->gradients[i] + part->begin,
                                              device_of(node, part->owner), mark_of_intra_node(part->bucket, mark),
                                              node->gradients[part->owner] + part->begin, bytes_of_part(part));
    return status;
}

static ls_status hand_out_sum(struct ls_intra_node *node, const struct part *part) {
    return hand_out(node, part, SUMMED);
}

static ls_status hand_out_result(struct ls_intra_node *node, const struct part *part) {
    return hand_out(node, part, RETURNED);
}

static ls_status receive_part(struct ls_intra_node *node, const struct part *part) {
    struct ls_device *owner = device_of(node, part->owner);
    ls_status status = owner->ops->queue->receive(owner, node->gradients[part->owner] + part->begin,
                                                  node->sums[part->group] + part->begin, bytes_of_part(part));
    return status ? status
                  : owner->ops->queue->forward(owner, mark_of_intra_node(part->bucket, RETURNED), NULL, NULL, 0);
}

static ls_status await_part(struct ls_intra_node *node, const struct part *part) {
    return ls_host_staging_await(node->strategy->runtime, device_of(node, part->owner),
                                 mark_of_intra_node(part->bucket, SUMMED), "add and copy", part->bucket);
}

/* ---- a step ---- */

static ls_status give_intra_node(const struct ls_adder *adder, int local, size_t bucket) {
    const struct ls_intra_node *node = adder->by;
    return queue_of(node, local)->send(device_of(node, local), mark_of_intra_node(bucket, GIVEN), NULL, NULL, 0);
}

/* reducer.c begins bucket b + 1 early, while the host adds bucket b, and comes again for it later: begun makes the
 * second call nothing. */
static ls_status begin_intra_node(const struct ls_adder *adder, size_t bucket) {
    struct ls_intra_node *node = adder->by;
    if (bucket < node->begun) return LS_OK;
    node->begun = bucket + 1;
    ls_status status = for_parts(node, bucket, add_intra_node_part);
    return status || !node->alone ? status : for_parts(node, bucket, hand_out_sum);
}

static ls_status arrive_intra_node(const struct ls_adder *adder, size_t bucket) {
    return for_parts(adder->by, bucket, await_part);
}

static ls_status put_back_intra_node(const struct ls_adder *adder, size_t bucket) {
    ls_status status = for_parts(adder->by, bucket, receive_part);
    return status ? status : for_parts(adder->by, bucket, hand_out_result);
}

static ls_status settle_intra_node(const struct ls_adder *adder, int local) {
    return queue_of(adder->by, local)->settle(device_of(adder->by, local));
}

static ls_status finish_intra_node(const struct ls_adder *adder, bool failed) {
    struct ls_intra_node *node = adder->by;
    (void)failed;
    node->begun = 0;
    return LS_OK;
}

const struct ls_adder_ops ls_intra_node_adds = {give_intra_node,     begin_intra_node,  arrive_intra_node,
                                                put_back_intra_node, finish_intra_node, settle_intra_node};

/* ---- making it ---- */

static void announce(const struct ls_intra_node *node) {
    const ls_strategy *strategy = node->strategy;
    ls_runtime_tell(strategy->runtime, "gradients of %d replicas are added between this worker's GPUs by %s%s",
                    strategy->local_count, is_to_one(strategy) ? "reduction to one device" : "hierarchical copy",
                    node->alone ? "" : ", and then by the host");
}

static ls_status find_first(struct ls_intra_node *node) {
    const ls_strategy *strategy = node->strategy;
    size_t workers = (size_t)strategy->runtime->size;
    node->first = ls_alloc_array(workers + 1, sizeof(*node->first));
    if (!node->first) return ls_fail_memory("sums of the workers", (workers + 1) * sizeof(*node->first));
    for (size_t w = 0; w < workers; w++) node->first[w + 1] = node->first[w] + sums_of(strategy, (int)w);
    return LS_OK;
}

static ls_status grow_slots(struct ls_intra_node *node, const struct part *part) {
    size_t wanted = (part->end - part->begin + LINE - 1) / LINE * LINE;
    if (part->count > 1 && node->slot_elements < wanted) node->slot_elements = wanted;
    return LS_OK;
}

/* A GPU that adds needs slots for the parts of the others. */
static ls_status allocate_slots(struct ls_intra_node *node, int local) {
    struct ls_device *device = device_of(node, local);
    size_t size = (size_t)node->slot_count * node->slot_elements * sizeof(float);
    void *memory = NULL;
    if (is_to_one(node->strategy) && local % node->strategy->node_replicas) return LS_OK;
    ls_status status = device->ops->allocate(device, size, &memory);
    if (!status) node->slots[local] = memory;
    return status;
}

static ls_status make_node(struct ls_intra_node *node, const struct ls_intra_node_config *config) {
    const ls_strategy *strategy = node->strategy;
    int most = node->replicas < strategy->node_replicas ? node->replicas : strategy->node_replicas;
    ls_status status = find_first(node);
    for (int i = 0; i < node->replicas; i++) node->gradients[i] = config->gradients[i];
    for (int g = 0; config->sums && g < ls_intra_node_sums(strategy); g++) node->sums[g] = config->sums[g];
    for (size_t b = 0; !status && b < node->count; b++) status = for_parts(node, b, grow_slots);
    for (node->slot_count = 1; 1 << (node->slot_count - 1) < most;) node->slot_count++; /* one more than levels */
    for (int i = 0; !status && most > 1 && i < node->replicas; i++) status = allocate_slots(node, i);
    return status;
}

ls_status ls_intra_node_new(ls_strategy *strategy, const struct ls_intra_node_config *config,
                            struct ls_intra_node **node) {
    LS_NEW(struct ls_intra_node, made, "sums in the node");
    made->strategy = strategy;
    made->replicas = strategy->local_count;
    made->buckets = config->buckets;
    made->count = config->count;
    made->alone = strategy->runtime->size == 1;
    ls_status status = make_node(made, config);
    if (status) {
        ls_intra_node_free(made);
        return status;
    }
    announce(made);
    *node = made;
    return LS_OK;
}

void ls_intra_node_free(struct ls_intra_node *node) {
    if (!node) return;
    for (int i = 0; i < node->replicas; i++)
        if (node->slots[i]) device_of(node, i)->ops->release(device_of(node, i), node->slots[i]);
    ls_free(node->first);
    ls_free(node);
}
