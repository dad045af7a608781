/* A ring of entries, and the numbers that other threads may read while it runs. */
#include "collective/run/flight.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

enum { CAPACITY = 1024 };

ls_status ls_flight_init(struct ls_flight *flight, size_t capacity, struct ls_activity *activity) {
    *flight = (struct ls_flight){.capacity = capacity ? capacity : CAPACITY, .activity = activity};
    flight->entries = ls_alloc_array(flight->capacity, sizeof(*flight->entries));
    return flight->entries ? LS_OK : ls_fail_memory("the flight record", flight->capacity * sizeof(*flight->entries));
}

void ls_flight_free(struct ls_flight *flight) {
    ls_free(flight->entries);
    flight->entries = NULL;
}

void ls_flight_begin(struct ls_flight *flight, const struct ls_frame *frame) {
    struct ls_flight_entry *entry = &flight->entries[flight->next];
    flight->next = flight->next + 1 < flight->capacity ? flight->next + 1 : 0; /* no division */
    flight->count++;
    flight->current = entry;
    entry->sequence = frame->sequence;
    entry->count = frame->count;
    entry->begun = entry->ended = 0;
    entry->kind = frame->kind;
    entry->dtype = frame->dtype;
    entry->algorithm = 0;
    entry->state = LS_FLIGHT_BEGUN;
    memcpy(entry->name, frame->name, sizeof(entry->name));
}

void ls_flight_start(struct ls_flight *flight, int64_t now) {
    if (!flight->current) return;
    flight->current->begun = now;
    if (flight->activity) ls_activity_set(&flight->activity->since, now);
}

static void tell_activity(struct ls_activity *activity, const struct ls_flight_entry *entry) {
    ls_activity_set(&activity->since, 0);
    ls_activity_add(&activity->collectives, 1);
    ls_activity_add(&activity->bytes, (int64_t)(entry->count * ls_dtype_size((ls_dtype)entry->dtype)));
    ls_activity_add(&activity->inside, entry->ended - entry->begun);
    ls_durations_add(&activity->durations, entry->ended - entry->begun);
}

void ls_flight_end(struct ls_flight *flight, bool failed) {
    struct ls_flight_entry *entry = flight->current;
    if (!entry) return;
    entry->ended = ls_now();
    if (!entry->begun) entry->begun = entry->ended; /* it came to an end before its clock started */
    entry->state = failed ? LS_FLIGHT_FAILED : LS_FLIGHT_DONE;
    if (flight->activity) tell_activity(flight->activity, entry);
    flight->current = NULL;
}

uint64_t ls_flight_dropped(const struct ls_flight *flight) {
    return flight->count > flight->capacity ? flight->count - flight->capacity : 0;
}

const struct ls_flight_entry *ls_flight_get(const struct ls_flight *flight, uint64_t index) {
    uint64_t at = ls_flight_dropped(flight) + index;
    return at < flight->count ? &flight->entries[at % flight->capacity] : NULL;
}
