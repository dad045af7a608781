/* Lists of actions in arrays that grow and are kept from call to call: no allocation in the steady state. */
#include "collective/schedule/schedule.h"

#include <limits.h>

#include "base/grow.h"

ls_status ls_schedule_init(struct ls_schedule *schedule, int size) {
    *schedule = (struct ls_schedule){.size = size};
    schedule->sends = ls_alloc_array((size_t)size, sizeof(struct ls_queue));
    schedule->receives = ls_alloc_array((size_t)size, sizeof(struct ls_queue));
    if (schedule->sends && schedule->receives) return LS_OK;
    ls_schedule_free(schedule);
    return ls_fail_memory("a schedule", 2 * (size_t)size * sizeof(struct ls_queue));
}

/* ---- scratch ---- */

static void free_scratch(struct ls_schedule *schedule) {
    while (schedule->scratch) {
        struct ls_scratch *next = schedule->scratch->next;
        ls_free(schedule->scratch->memory);
        ls_free(schedule->scratch);
        schedule->scratch = next;
    }
}

static struct ls_scratch *add_scratch(struct ls_schedule *schedule, size_t size) {
    struct ls_scratch *made = ls_alloc(sizeof(*made));
    if (made) made->memory = ls_alloc_aligned(size);
    if (!made || !made->memory) {
        ls_free(made);
        return NULL;
    }
    made->size = size;
    made->next = schedule->scratch;
    schedule->scratch = made;
    return made;
}

/* Scratch that was taken in several pieces will be one piece the next time. */
static void reset_scratch(struct ls_schedule *schedule) {
    size_t used = 0;
    for (const struct ls_scratch *scratch = schedule->scratch; scratch; scratch = scratch->next) used += scratch->used;
    if (schedule->scratch && schedule->scratch->next) {
        free_scratch(schedule);
        (void)add_scratch(schedule, used); /* or in pieces again */
    }
    if (schedule->scratch) schedule->scratch->used = 0;
}

void *ls_schedule_take(struct ls_schedule *schedule, size_t size) {
    enum { LEAST = 64 * 1024 };
    if (schedule->out_of_memory) return NULL;
    size_t rounded = (size + 63) & ~(size_t)63;
    struct ls_scratch *scratch = schedule->scratch;
    if (size > PTRDIFF_MAX)
        scratch = NULL;
    else if (!scratch || scratch->size - scratch->used < rounded)
        scratch = add_scratch(schedule, rounded > LEAST ? rounded : LEAST);
    if (!scratch) {
        schedule->out_of_memory = true;
        return NULL;
    }
    unsigned char *taken = scratch->memory + scratch->used;
    scratch->used += rounded;
    return taken;
}

/* ---- the whole ---- */

void ls_schedule_free(struct ls_schedule *schedule) {
    ls_free(schedule->sends);
    ls_free(schedule->receives);
    ls_free(schedule->actions);
    ls_free(schedule->gates);
    ls_free(schedule->sources);
    ls_free(schedule->covers);
    ls_free(schedule->narrow_sources);
    ls_free(schedule->rings);
    ls_free(schedule->places);
    free_scratch(schedule);
    *schedule = (struct ls_schedule){0};
}

void ls_schedule_reset(struct ls_schedule *schedule, int leaves) {
    static const struct ls_queue empty = {-1, -1, 0};
    schedule->leaves = leaves;
    schedule->out_of_memory = false;
    schedule->action_count = schedule->gate_count = schedule->source_count = 0;
    schedule->compute = empty;
    reset_scratch(schedule);
    for (int i = 0; i < schedule->size; i++) schedule->sends[i] = schedule->receives[i] = empty;
}

/* Makes room for one more element in an array of count; false, and sticky, when there is no memory. */
static bool reserve(struct ls_schedule *schedule, void *array, size_t *capacity, size_t count, size_t element) {
    const struct ls_growth growth = {element, 64, INT_MAX - 1, "a schedule"};
    if (schedule->out_of_memory) return false;
    schedule->out_of_memory = ls_grow(array, capacity, count + 1, &growth) != LS_OK;
    return !schedule->out_of_memory;
}
#define RESERVE(schedule, array, capacity, count)                                                                      \
    reserve(schedule, &(schedule)->array, &(schedule)->capacity, (schedule)->count, sizeof(*(schedule)->array))

static struct ls_queue *queue_of(struct ls_schedule *schedule, const struct ls_action *action) {
    switch (action->kind) {
    case LS_ACTION_SEND:
        return &schedule->sends[action->peer];
    case LS_ACTION_RECEIVE:
    case LS_ACTION_RECEIVE_ADD:
        return &schedule->receives[action->peer];
    default:
        return &schedule->compute;
    }
}

int ls_schedule_add(struct ls_schedule *schedule, struct ls_action action) {
    if (!action.size || !RESERVE(schedule, actions, action_capacity, action_count)) return -1;
    int index = (int)schedule->action_count++;
    struct ls_queue *queue = queue_of(schedule, &action);
    action.next = -1;
    action.gates = (int)schedule->gate_count;
    action.sources = (int)schedule->source_count;
    schedule->actions[index] = action;
    if (queue->head < 0)
        queue->head = index;
    else
        schedule->actions[queue->tail].next = index;
    queue->tail = index;
    queue->bytes += action.size;
    return index;
}

void ls_schedule_gate_at(struct ls_schedule *schedule, int action, int gate, size_t offset) {
    if (action < 0 || gate < 0 || !RESERVE(schedule, gates, gate_capacity, gate_count)) return;
    schedule->gates[schedule->gate_count++] = (struct ls_action_gate){gate, offset};
    schedule->actions[action].gate_count++;
}

int ls_schedule_send(struct ls_schedule *schedule, int peer, const void *from, size_t size) {
    return ls_schedule_add(schedule,
                           (struct ls_action){.kind = LS_ACTION_SEND, .peer = peer, .from = from, .size = size});
}

int ls_schedule_receive(struct ls_schedule *schedule, int peer, void *to, size_t size) {
    return ls_schedule_add(schedule,
                           (struct ls_action){.kind = LS_ACTION_RECEIVE, .peer = peer, .to = to, .size = size});
}

int ls_schedule_copy(struct ls_schedule *schedule, void *to, const void *from, size_t size) {
    return ls_schedule_add(schedule, (struct ls_action){.kind = LS_ACTION_COPY, .to = to, .from = from, .size = size});
}

void ls_schedule_gate(struct ls_schedule *schedule, int action, int gate) {
    ls_schedule_gate_at(schedule, action, gate, 0);
}

static void add_source(struct ls_schedule *schedule, int action, struct ls_subtree covers, const void *data,
                       bool narrow) {
    if (action < 0 || !RESERVE(schedule, sources, source_capacity, source_count) ||
        !RESERVE(schedule, covers, cover_capacity, source_count) ||
        !RESERVE(schedule, narrow_sources, narrow_capacity, source_count) ||
        !RESERVE(schedule, rings, ring_capacity, source_count) ||
        !RESERVE(schedule, places, place_capacity, source_count))
        return;
    schedule->rings[schedule->source_count] = -1;
    schedule->narrow_sources[schedule->source_count] = narrow;
    schedule->sources[schedule->source_count] = data;
    schedule->covers[schedule->source_count++] = covers;
    schedule->actions[action].source_count++;
}

void ls_schedule_source(struct ls_schedule *schedule, int action, struct ls_subtree covers, const void *data) {
    add_source(schedule, action, covers, data, false);
}

void ls_schedule_narrow_source(struct ls_schedule *schedule, int action, struct ls_subtree covers, const void *data) {
    add_source(schedule, action, covers, data, true);
}

void ls_schedule_read_ring(struct ls_schedule *schedule, int action, int receive) {
    if (action < 0 || receive < 0 || schedule->out_of_memory) return;
    schedule->rings[schedule->source_count - 1] = receive;
    schedule->actions[receive].reader = action;
}
