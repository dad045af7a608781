#define _GNU_SOURCE
#include "meeting.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    _Atomic int total, joined, left;
    struct {
        _Atomic uint64_t posted, read; /* rounds */
        _Atomic bool here;             /* it has joined, and not left */
        struct ls_meeting_call call;
        uint64_t offset;
    } ranks[LS_MEETING_RANKS];
    _Alignas(64) char chunks[LS_MEETING_RANKS][LS_MEETING_CHUNK];
};
struct ls_meeting {
    struct place *place;
    char name[LS_MEETING_NAME];
    int rank, total, file; /* of the file, the rank's byte is locked: the kernel opens the lock when the process ends */
    uint64_t round;
};

bool ls_meeting_new_id(char name[LS_MEETING_NAME]) {
    static _Atomic int made;
    (void)snprintf(name, LS_MEETING_NAME, "/dev/shm/emulated-nccl-%d-%d", (int)getpid(), made++);
    int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool fits = file >= 0 && !ftruncate(file, sizeof(struct place));
    if (file >= 0) (void)close(file);
    return fits;
}

static struct flock byte_of(int rank) {
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
}

/* The last one to come removes the name. */
struct ls_meeting *ls_meeting_join(const char *name, int rank, int total) {
    struct ls_meeting *made = calloc(1, sizeof(*made));
    int file = total <= LS_MEETING_RANKS ? open(name, O_RDWR | O_CLOEXEC) : -1, none = 0;
    void *place =
        file < 0 || !made ? MAP_FAILED : mmap(NULL, sizeof(struct place), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    struct flock own = byte_of(rank);
    if (place == MAP_FAILED || fcntl(file, F_OFD_SETLK, &own)) {
        if (place != MAP_FAILED) (void)munmap(place, sizeof(struct place));
        if (file >= 0) (void)close(file);
        free(made);
        return NULL;
    }
    *made = (struct ls_meeting){.place = place, .rank = rank, .total = total, .file = file};
    (void)snprintf(made->name, sizeof(made->name), "%s", name);
    if (!atomic_compare_exchange_strong(&made->place->total, &none, total) && none != total) {
        ls_meeting_leave(made);
        return NULL;
    }
    atomic_store(&made->place->ranks[rank].here, true);
    if (atomic_fetch_add(&made->place->joined, 1) + 1 == total) (void)unlink(name);
    return made;
}

void ls_meeting_leave(struct ls_meeting *meeting) {
    if (!meeting) return;
    if (atomic_load(&meeting->place->joined) < meeting->total) (void)unlink(meeting->name);
    atomic_store(&meeting->place->ranks[meeting->rank].here, false);
    (void)munmap(meeting->place, sizeof(*meeting->place));
    (void)close(meeting->file);
    free(meeting);
}

bool ls_meeting_all_joined(const struct ls_meeting *meeting) {
    return atomic_load(&meeting->place->joined) == meeting->total;
}

/* A rank that leaves says so before it gives its lock back: it is asked again behind the lock. */
bool ls_meeting_has_lost(const struct ls_meeting *meeting) {
    for (int i = 0; i < meeting->total; i++) {
        struct flock its = byte_of(i);
        if (i == meeting->rank || !atomic_load(&meeting->place->ranks[i].here)) continue;
        if (fcntl(meeting->file, F_OFD_GETLK, &its) || its.l_type != F_UNLCK) continue;
        if (atomic_load(&meeting->place->ranks[i].here)) return true;
    }
    return false;
}

void ls_meeting_vanish(struct ls_meeting *meeting) {
    struct flock own = byte_of(meeting->rank);
    own.l_type = F_UNLCK; /* to close the file would not do while it is mapped */
    (void)fcntl(meeting->file, F_OFD_SETLK, &own);
}

/* ---- arithmetic, in the order of the ranks ---- */

static size_t width_of(const struct ls_meeting_call *call) {
    return call->type == LS_MEETING_FLOAT64 || call->type == LS_MEETING_INT64 ? 8 : 4;
}

#define COMBINE(type)                                                                                                  \
    do {                                                                                                               \
        type *to = output;                                                                                             \
        const type *from = input;                                                                                      \
        for (size_t i = 0; i < size / sizeof(type); i++) {                                                             \
            if (op == LS_MEETING_SUM || op == LS_MEETING_MEAN) to[i] = (type)(to[i] + from[i]);                        \
            if (op == LS_MEETING_MIN && from[i] < to[i]) to[i] = from[i];                                              \
            if (op == LS_MEETING_MAX && from[i] > to[i]) to[i] = from[i];                                              \
        }                                                                                                              \
    } while (0)
#define DIVIDE(type)                                                                                                   \
    do {                                                                                                               \
        type *to = output;                                                                                             \
        for (size_t i = 0; i < size / sizeof(type); i++) to[i] = to[i] / (type)total;                                  \
    } while (0)
#define WITH_TYPE(number, what)                                                                                        \
    do {                                                                                                               \
        if ((number) == LS_MEETING_FLOAT32)                                                                            \
            what(float);                                                                                               \
        else if ((number) == LS_MEETING_FLOAT64)                                                                       \
            what(double);                                                                                              \
        else if ((number) == LS_MEETING_INT32)                                                                         \
            what(int32_t);                                                                                             \
        else                                                                                                           \
            what(int64_t);                                                                                             \
    } while (0)

static void combine(int type, int op, void *output, const void *input, size_t size) {
    WITH_TYPE(type, COMBINE);
}

static void divide(int type, void *output, int total, size_t size) {
    WITH_TYPE(type, DIVIDE);
}

/* ---- a round: each brings a chunk, each takes what it needs of all ---- */

/* Bytes that each rank brings in the call. */
static size_t length_of(const struct ls_meeting_part *part) {
    size_t parts = part->call.kind == LS_MEETING_REDUCE_SCATTER ? (size_t)part->meeting->total : 1;
    return (size_t)part->call.count * width_of(&part->call) * parts;
}

static size_t chunk_of(const struct ls_meeting_part *part) {
    size_t left = length_of(part) - part->done;
    return left < LS_MEETING_CHUNK ? left : LS_MEETING_CHUNK;
}

static bool all_have(const struct ls_meeting *meeting, bool posted) {
    uint64_t wanted = meeting->round + posted;
    for (int i = 0; i < meeting->total; i++)
        if (atomic_load(posted ? &meeting->place->ranks[i].posted : &meeting->place->ranks[i].read) < wanted)
            return false;
    return true;
}

static void post(struct ls_meeting_part *part) {
    struct ls_meeting *meeting = part->meeting;
    struct place *place = meeting->place;
    memcpy(place->chunks[meeting->rank], (const char *)part->input + part->done, chunk_of(part));
    place->ranks[meeting->rank].call = part->call;
    place->ranks[meeting->rank].offset = part->done;
    atomic_store(&place->ranks[meeting->rank].posted, meeting->round + 1);
    part->posted = true;
}

static bool same_calls(const struct ls_meeting_part *part) {
    const struct place *place = part->meeting->place;
    for (int i = 0; i < part->meeting->total; i++)
        if (memcmp(&place->ranks[i].call, &part->call, sizeof(part->call)) != 0 || place->ranks[i].offset != part->done)
            return false;
    return true;
}

/* Sums of the bytes [begin, end) of the chunk. */
static void reduce(const struct ls_meeting_part *part, void *output, size_t begin, size_t end) {
    const struct ls_meeting *meeting = part->meeting;
    memcpy(output, meeting->place->chunks[0] + begin, end - begin);
    for (int i = 1; i < meeting->total; i++)
        combine(part->call.type, part->call.op, output, meeting->place->chunks[i] + begin, end - begin);
    if (part->call.op == LS_MEETING_MEAN) divide(part->call.type, output, meeting->total, end - begin);
}

static void take(const struct ls_meeting_part *part) {
    const struct ls_meeting *meeting = part->meeting;
    size_t size = chunk_of(part), own = (size_t)part->call.count * width_of(&part->call);
    size_t at = part->done, first = own * (size_t)meeting->rank, last = first + own;
    char *output = part->output;
    switch (part->call.kind) {
    case LS_MEETING_ALL_REDUCE:
        reduce(part, output + at, 0, size);
        break;
    case LS_MEETING_BROADCAST:
        memcpy(output + at, meeting->place->chunks[part->call.root], size);
        break;
    case LS_MEETING_ALL_GATHER:
        for (int i = 0; i < meeting->total; i++) memcpy(output + own * (size_t)i + at, meeting->place->chunks[i], size);
        break;
    default: /* reduce-scatter: what of the chunk is this rank's */
        first = first > at ? first : at;
        last = last < at + size ? last : at + size;
        if (first < last) reduce(part, output + (first - own * (size_t)meeting->rank), first - at, last - at);
    }
}

int ls_meeting_ask(struct ls_meeting_part *part) {
    struct ls_meeting *meeting = part->meeting;
    do {
        if (!part->posted && !all_have(meeting, false)) return 0;
        if (!part->posted) post(part);
        if (!all_have(meeting, true)) return 0;
        if (!same_calls(part)) return -1;
        take(part);
        part->done += chunk_of(part);
        part->posted = false;
        atomic_store(&meeting->place->ranks[meeting->rank].read, ++meeting->round);
    } while (part->done < length_of(part));
    return 1;
}
