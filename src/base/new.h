/* The begin and the end of a function that makes something.
 *
 *     LS_NEW(struct ls_door, made, "a door");
 *     ls_status status = hang_door(made);
 *     return LS_HAND_OVER(status, door, made, ls_door_free(made)); */
#pragma once
#include "base/memory.h"
#include "base/status.h"

/* Declares name, a pointer to zeroed memory for one, or for count: where there is none, the function ends with
 * RESOURCE_EXHAUSTED. */
#define LS_NEW(type, name, what)                                                                                       \
    type *name = ls_alloc(sizeof(*name));                                                                              \
    if (!name) return ls_fail_memory(what, sizeof(*name))
#define LS_NEW_ARRAY(type, name, count, what)                                                                          \
    type *name = ls_alloc_array(count, sizeof(*name));                                                                 \
    if (!name) return ls_fail_memory(what, (count) * sizeof(*name))

/* Runs release if status is an error, else sets *output to made. Yields status, a variable. */
#define LS_HAND_OVER(status, output, made, release) ((status) ? (void)(release) : (void)(*(output) = (made)), (status))
