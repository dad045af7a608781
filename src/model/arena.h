/* Memory of plans. */
#pragma once
#include "model/network.h"
#include "model/plan.h"

ls_status ls_arena_reserve(struct ls_arena *arena, size_t size); /* what was in it is gone if it grows */
void ls_arena_release(struct ls_arena *arena);
/* Gives each used buffer an offset, largest first; *floats is where the last one ends. */
ls_status ls_arena_place(struct ls_plan_buffer *buffers, size_t count, size_t *floats);
