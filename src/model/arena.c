/* Memory of plans: where each buffer lies, given when it is needed; and the memory itself, which grows. */
#include "model/plan.h"

#include "base/new.h"

ls_status ls_arena_reserve(struct ls_arena *arena, size_t size) {
    if (arena->memory && size <= arena->size) return LS_OK;
    ls_arena_release(arena);
    ls_status status = arena->device->ops->allocate(arena->device, size, &arena->memory);
    if (!status) arena->size = size;
    return status;
}

void ls_arena_release(struct ls_arena *arena) {
    if (arena->memory) arena->device->ops->release(arena->device, arena->memory);
    arena->memory = NULL;
    arena->size = 0;
}

static bool overlap(const struct ls_plan_buffer *a, const struct ls_plan_buffer *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place where buffer meets no placed one that lives at the same time. placed is in order of offsets. at
 * moves past each buffer that lives at the same time, until the gap before the next one is large enough: first fit.
 * Buffers that live at other times are as if they were not there. */
static size_t find_place(const struct ls_plan_buffer *buffer, const struct ls_plan_buffer *const *placed,
                         size_t count) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (!overlap(buffer, placed[i])) continue;
        if (placed[i]->offset >= at + buffer->size) break;
        if (placed[i]->offset + placed[i]->size > at) at = placed[i]->offset + placed[i]->size;
    }
    return at;
}

static void insert(const struct ls_plan_buffer **placed, size_t count, const struct ls_plan_buffer *buffer) {
    size_t i = count;
    for (; i > 0 && placed[i - 1]->offset > buffer->offset; i--) placed[i] = placed[i - 1];
    placed[i] = buffer;
}

/* The largest buffer that has no place yet; NULL if every used one has. */
static struct ls_plan_buffer *next_largest(struct ls_plan_buffer *buffers, size_t count) {
    struct ls_plan_buffer *largest = NULL;
    for (size_t i = 0; i < count; i++)
        if (buffers[i].used && !buffers[i].placed && (!largest || buffers[i].size > largest->size))
            largest = &buffers[i];
    return largest;
}

/* The problem is dynamic storage allocation, which is NP-hard. Large buffers first, each at the lowest place that is
 * free for its whole life, is "greedy by size" of Pisarchyk and Lee 2020. It takes the square of count, once a plan.
 * floats is the end of the highest buffer. */
ls_status ls_arena_place(struct ls_plan_buffer *buffers, size_t count, size_t *floats) {
    LS_CLEANUP(ls_free_pointer)
    LS_NEW_ARRAY(const struct ls_plan_buffer *, placed, count + 1, "the places of a plan's buffers");
    size_t end = 0, done = 0;
    for (struct ls_plan_buffer *buffer; (buffer = next_largest(buffers, count)); done++) {
        buffer->offset = find_place(buffer, placed, done);
        buffer->placed = true;
        insert(placed, done, buffer);
        if (buffer->offset + buffer->size > end) end = buffer->offset + buffer->size;
    }
    *floats = end;
    return LS_OK;
}
