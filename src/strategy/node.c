/* Each bucket of a group is cut into parts, one for each of its GPUs (or one part for the first GPU). Who has a part
 * takes it from the others, adds in the order of the tree, and brings the sum to where it is wanted; the others take
 * the result from there. All of it is queued beside the ops, behind marks; only the host waits. */
#include "strategy/node.h"

#include <stdio.h>

#include "base/memory.h"
#include "collective/tree.h"
#include "strategy/await.h"
#include "strategy/strategy.h"

#define LINE 16 /* elements: parts begin on cache lines */

struct ls_node {
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

/* ---- who adds with whom ---- */

static bool has_several(const ls_strategy *strategy) {
    for (int w = 0; w < strategy->membership->size; w++)
        if (strategy->first[w + 1] - strategy->first[w] > 1) return true;
    return false;
}

/* So many replicas, counted from replica 0, lie on one worker each time and make up a subtree; the last ones of all may
 * be fewer. */
static int aligned_replicas(const ls_strategy *strategy) {
    int starts = LS_MAX_LOCAL_DEVICES; /* a power of two */
    for (int w = 1; w < strategy->membership->size; w++) starts |= strategy->first[w];
    return starts & -starts;
}

static int replicas_of_group(const ls_strategy *strategy) {
    bool any = strategy->membership->size == 1 || ls_strategy_communication(strategy) == LS_RING;
    return any ? LS_MAX_LOCAL_DEVICES : aligned_replicas(strategy);
}

/* Devices of one plugin. */
static bool can_add(const ls_strategy *strategy) {
    const struct ls_device_ops *ops = strategy->replicas[0].device->ops;
    for (int i = 0; i < strategy->local_count; i++) {
        const struct ls_device *device = strategy->replicas[i].device;
        if (device->host_memory || device->ops != ops) return false;
    }
    return true;
}

ls_status ls_node_agree(ls_strategy *strategy) {
    struct ls_membership *membership = strategy->membership;
    strategy->node_replicas = 1;
    if (!has_several(strategy)) return LS_OK;
    LS_CLEANUP(ls_free_pointer) int64_t *can = ls_alloc_array((size_t)membership->size, sizeof(*can));
    if (!can) return ls_fail_memory("offers", (size_t)membership->size * sizeof(*can));
    ls_status status = ls_membership_exchange(membership, "adds in the node", can_add(strategy), can);
    bool all = !status;
    for (int w = 0; all && w < membership->size; w++) all = can[w];
    if (all) strategy->node_replicas = replicas_of_group(strategy);
    return status;
}

static int sums_of(const ls_strategy *strategy, int worker) {
    int replicas = strategy->first[worker + 1] - strategy->first[worker];
    return (replicas + strategy->node_replicas - 1) / strategy->node_replicas;
}

int ls_node_sums(const ls_strategy *strategy) {
    return sums_of(strategy, strategy->membership->rank);
}

const int *ls_node_first(const struct ls_node *node) {
    return node->first;
}

/* ---- parts ---- */

static bool is_to_one(const ls_strategy *strategy) {
    return strategy->options.cross_device_ops == LS_REDUCTION_TO_ONE_DEVICE;
}

/* Elements [begin, end) of the blobs of replicas first to first + count - 1, of which owner adds. */
struct part {
    size_t bucket, begin, end;
    int group, first, count, owner;
};
typedef ls_status part_fn(struct ls_node *node, const struct part *part);

/* Where the i-th of so many parts of a bucket begins. */
static size_t cut(const struct ls_bucket *range, int i, int parts) {
    size_t at = range->begin + (range->end - range->begin) * (size_t)i / (size_t)parts;
    if (i == 0 || i == parts) return at;
    at = at / LINE * LINE;
    return at > range->begin ? at : range->begin;
}

static ls_status for_parts_of_group(struct ls_node *node, size_t bucket, int group, part_fn *act) {
    const ls_strategy *strategy = node->strategy;
    int first = group * strategy->node_replicas, rest = node->replicas - first;
    int count = rest < strategy->node_replicas ? rest : strategy->node_replicas;
    int parts = is_to_one(strategy) ? 1 : count;
    ls_status status = LS_OK;
    for (int i = 0; !status && i < parts; i++) {
        const struct part part = {.bucket = bucket,
                                  .begin = cut(&node->buckets[bucket], i, parts),
                                  .end = cut(&node->buckets[bucket], i + 1, parts),
                                  .group = group,
                                  .first = first,
                                  .count = count,
                                  .owner = first + i};
        if (part.begin < part.end) status = act(node, &part);
    }
    return status;
}

static ls_status for_parts(struct ls_node *node, size_t bucket, part_fn *act) {
    int groups = ls_node_sums(node->strategy);
    ls_status status = LS_OK;
    for (int g = 0; !status && g < groups; g++) status = for_parts_of_group(node, bucket, g, act);
    return status;
}

static struct ls_device *device_of(const struct ls_node *node, int local) {
    return node->strategy->replicas[local].device;
}

static const struct ls_device_queue_ops *queue_of(const struct ls_node *node, int local) {
    return device_of(node, local)->ops->queue;
}

static size_t bytes_of(const struct part *part) {
    return (part->end - part->begin) * sizeof(float);
}

/* ---- marks ---- */

/* GIVEN: of each replica, its gradients. SUMMED, RETURNED: of a part's owner, the sum and the result. */
enum mark { GIVEN, SUMMED, RETURNED, MARKS };

/* Where numbers meet again in one mark, what waits for the earlier bucket waits for the later one too. */
static int mark_of(size_t bucket, enum mark mark) {
    return (int)((bucket * MARKS + mark) % (LS_DEVICE_MARKS / MARKS * MARKS));
}

/* ---- adding ---- */

struct folding {
    const struct ls_node *node;
    const struct part *part;
    ls_status status;
};

static float *slot_of(const struct folding *folding, int slot) {
    const struct ls_node *node = folding->node;
    return node->slots[folding->part->owner] + (size_t)slot * node->slot_elements;
}

/* A replica's part where its owner adds: where it lies, or taken into a slot. */
static float *take(struct folding *folding, int local, int slot) {
    const struct ls_node *node = folding->node;
    const struct part *part = folding->part;
    float *from = node->gradients[local] + part->begin;
    if (local == part->owner) return from;
    float *to = slot_of(folding, slot);
    if (!folding->status)
        folding->status = queue_of(node, part->owner)
                              ->fetch(device_of(node, part->owner), to, device_of(node, local),
                                      mark_of(part->bucket, GIVEN), from, bytes_of(part));
    return to;
}

/* The subtree over the group's replicas [low, high); from slot on all are free. Returns where it lies: of the whole
 * tree that is the owner's own place. */
static float *fold(struct folding *folding, int low, int high, int slot) {
    const struct part *part = folding->part;
    if (high - low == 1) return take(folding, part->first + low, slot);
    int middle = low + ls_tree_split(high - low);
    const float *left = fold(folding, low, middle, slot), *right = fold(folding, middle, high, slot + 1);
    bool whole = high - low == part->count;
    float *to = whole ? folding->node->gradients[part->owner] + part->begin : slot_of(folding, slot);
    if (!folding->status)
        folding->status = queue_of(folding->node, part->owner)
                              ->add(device_of(folding->node, part->owner), to, left, right, part->end - part->begin);
    return to;
}

/* To the host, if other workers wait for it there. */
static ls_status add_part(struct ls_node *node, const struct part *part) {
    struct ls_device *owner = device_of(node, part->owner);
    struct folding folding = {node, part, LS_OK};
    float *sum = node->alone ? NULL : node->sums[part->group] + part->begin;
    int given = mark_of(part->bucket, GIVEN), summed = mark_of(part->bucket, SUMMED);
    folding.status = owner->ops->queue->fetch(owner, NULL, owner, given, NULL, 0);
    const float *own = fold(&folding, 0, part->count, 0);
    if (folding.status) return folding.status;
    return owner->ops->queue->forward(owner, summed, sum, own, sum ? bytes_of(part) : 0);
}

static ls_status hand_out(const struct ls_node *node, const struct part *part, enum mark mark) {
    ls_status status = LS_OK;
    for (int i = part->first; !status && i < part->first + part->count; i++)
        if (i != part->owner)
            status = queue_of(node, i)->fetch(device_of(node, i), node->gradients[i] + part->begin,
                                              device_of(node, part->owner), mark_of(part->bucket, mark),
                                              node->gradients[part->owner] + part->begin, bytes_of(part));
    return status;
}

static ls_status hand_out_sum(struct ls_node *node, const struct part *part) {
    return hand_out(node, part, SUMMED);
}

static ls_status hand_out_result(struct ls_node *node, const struct part *part) {
    return hand_out(node, part, RETURNED);
}

static ls_status receive_part(struct ls_node *node, const struct part *part) {
    struct ls_device *owner = device_of(node, part->owner);
    ls_status status = owner->ops->queue->receive(owner, node->gradients[part->owner] + part->begin,
                                                  node->sums[part->group] + part->begin, bytes_of(part));
    return status ? status : owner->ops->queue->forward(owner, mark_of(part->bucket, RETURNED), NULL, NULL, 0);
}

struct arriving {
    struct ls_device *device;
    int mark;
};

static ls_status ask(void *context, bool *done) {
    const struct arriving *arriving = context;
    return arriving->device->ops->queue->sent(arriving->device, arriving->mark, done);
}

static ls_status await_part(struct ls_node *node, const struct part *part) {
    struct arriving arriving = {device_of(node, part->owner), mark_of(part->bucket, SUMMED)};
    struct ls_await await = {.ask = ask, .context = &arriving};
    (void)snprintf(await.what, sizeof(await.what), "%s to add and copy gradient bucket %zu", arriving.device->name,
                   part->bucket);
    return ls_await(node->strategy->membership, &await);
}

/* ---- a step ---- */

ls_status ls_node_give(struct ls_node *node, int local, size_t bucket) {
    return queue_of(node, local)->send(device_of(node, local), mark_of(bucket, GIVEN), NULL, NULL, 0);
}

ls_status ls_node_begin(struct ls_node *node, size_t bucket) {
    if (bucket < node->begun) return LS_OK;
    node->begun = bucket + 1;
    ls_status status = for_parts(node, bucket, add_part);
    return status || !node->alone ? status : for_parts(node, bucket, hand_out_sum);
}

ls_status ls_node_arrive(struct ls_node *node, size_t bucket) {
    return for_parts(node, bucket, await_part);
}

ls_status ls_node_return(struct ls_node *node, size_t bucket) {
    ls_status status = for_parts(node, bucket, receive_part);
    return status ? status : for_parts(node, bucket, hand_out_result);
}

ls_status ls_node_settle(const struct ls_node *node, int local) {
    return queue_of(node, local)->settle(device_of(node, local));
}

void ls_node_end_step(struct ls_node *node) {
    node->begun = 0;
}

/* ---- making it ---- */

static void announce(const struct ls_node *node) {
    const ls_strategy *strategy = node->strategy;
    ls_log_info(&strategy->membership->log, "gradients of %d replicas are added between this worker's GPUs by %s%s",
                strategy->local_count, is_to_one(strategy) ? "reduction to one device" : "hierarchical copy",
                node->alone ? "" : ", and then by the host");
}

static ls_status find_first(struct ls_node *node) {
    const ls_strategy *strategy = node->strategy;
    size_t workers = (size_t)strategy->membership->size;
    node->first = ls_alloc_array(workers + 1, sizeof(*node->first));
    if (!node->first) return ls_fail_memory("sums of the workers", (workers + 1) * sizeof(*node->first));
    for (size_t w = 0; w < workers; w++) node->first[w + 1] = node->first[w] + sums_of(strategy, (int)w);
    return LS_OK;
}

static ls_status grow_slots(struct ls_node *node, const struct part *part) {
    size_t wanted = (part->end - part->begin + LINE - 1) / LINE * LINE;
    if (part->count > 1 && node->slot_elements < wanted) node->slot_elements = wanted;
    return LS_OK;
}

/* Who adds needs some. */
static ls_status allocate_slots(struct ls_node *node, int local) {
    struct ls_device *device = device_of(node, local);
    size_t size = (size_t)node->slot_count * node->slot_elements * sizeof(float);
    void *memory = NULL;
    if (is_to_one(node->strategy) && local % node->strategy->node_replicas) return LS_OK;
    ls_status status = device->ops->allocate(device, size, &memory);
    if (!status) node->slots[local] = memory;
    return status;
}

static ls_status make(struct ls_node *node, const struct ls_node_config *config) {
    const ls_strategy *strategy = node->strategy;
    int most = node->replicas < strategy->node_replicas ? node->replicas : strategy->node_replicas;
    ls_status status = find_first(node);
    for (int i = 0; i < node->replicas; i++) node->gradients[i] = config->gradients[i];
    for (int g = 0; config->sums && g < ls_node_sums(strategy); g++) node->sums[g] = config->sums[g];
    for (size_t b = 0; !status && b < node->count; b++) status = for_parts(node, b, grow_slots);
    for (node->slot_count = 1; 1 << (node->slot_count - 1) < most;) node->slot_count++; /* one more than levels */
    for (int i = 0; !status && most > 1 && i < node->replicas; i++) status = allocate_slots(node, i);
    return status;
}

ls_status ls_node_new(ls_strategy *strategy, const struct ls_node_config *config, struct ls_node **node) {
    struct ls_node *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("sums in the node", sizeof(*made));
    made->strategy = strategy;
    made->replicas = strategy->local_count;
    made->buckets = config->buckets;
    made->count = config->count;
    made->alone = strategy->membership->size == 1;
    ls_status status = make(made, config);
    if (status) {
        ls_node_free(made);
        return status;
    }
    announce(made);
    *node = made;
    return LS_OK;
}

void ls_node_free(struct ls_node *node) {
    if (!node) return;
    for (int i = 0; i < node->replicas; i++)
        if (node->slots[i]) device_of(node, i)->ops->release(device_of(node, i), node->slots[i]);
    ls_free(node->first);
    ls_free(node);
}
