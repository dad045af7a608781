/* Finds the ranks that can map each other's memory. Each rank tells all others its findings, so all draw the same
 * conclusions from the same table. */
#include "collective/shm/discover.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/new.h"
#include "collective/run/frame.h"

/* The message of a rank to all others: where it is. */
struct identity {
    uint64_t place;
    int32_t wanted, unused;
};
/* The message of a leader. */
struct offer {
    struct ls_segment_address address;
    int32_t error, unused;
};

ls_status ls_discover_init(struct ls_discover *attempt, const struct ls_discover_ranks *ranks) {
    size_t size = (size_t)ranks->size;
    *attempt = (struct ls_discover){.ranks = ranks,
                                    .leader = ls_alloc_array(size, sizeof(*attempt->leader)),
                                    .wanted = ls_alloc_array(size, sizeof(*attempt->wanted)),
                                    .errors = ls_alloc_array(size, sizeof(*attempt->errors))};
    if (attempt->leader && attempt->wanted && attempt->errors) return LS_OK;
    ls_discover_free(attempt);
    return ls_fail_memory("an attempt at shared memory", size * sizeof(int));
}

void ls_discover_free(struct ls_discover *attempt) {
    ls_free(attempt->leader);
    ls_free(attempt->wanted);
    ls_free(attempt->errors);
    *attempt = (struct ls_discover){0};
}

/* Each rank with bytes gives that many, at input; all of them follow one another at output. */
static ls_status gather_attempt(const struct ls_discover *attempt, const char *name, const bool *gives,
                                struct ls_bytes input, void *output) {
    const struct ls_discover_ranks *ranks = attempt->ranks;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(size_t, counts, (size_t)ranks->size, "an attempt at shared memory");
    for (int i = 0; i < ranks->size; i++) counts[i] = !gives || gives[i] ? input.size / sizeof(int32_t) : 0;
    return ranks->all_gather(ranks->context, LS_ALL_GATHER(name, input.data, output, counts, LS_INT32));
}

ls_status ls_discover_gather(const struct ls_discover *attempt, const char *name, void *entries, size_t bytes) {
    const struct ls_bytes own = {(char *)entries + (size_t)attempt->ranks->rank * bytes, bytes};
    return gather_attempt(attempt, name, NULL, own, entries);
}

/* ---- places ---- */

/* A digest of the bytes of a file below /proc; of none where it cannot be read. */
static uint64_t digest_file(uint64_t digest, const char *path) {
    unsigned char bytes[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
    if (fd >= 0) (void)close(fd);
    for (ssize_t i = 0; i < length; i++) digest = ls_frame_digest(digest, bytes[i]);
    return digest;
}

/* Equal where segments may be found through /proc. By chance equal places cost an attempt that fails. */
static uint64_t digest_place(int pretended_host) {
    struct stat namespace = {0};
    (void)stat("/proc/self/ns/pid", &namespace);
    uint64_t digest = digest_file(0, "/proc/sys/kernel/random/boot_id");
    digest = ls_frame_digest(digest, (uint64_t) namespace.st_ino);
    digest = ls_frame_digest(digest, (uint64_t)geteuid());
    return ls_frame_digest(digest, (uint64_t)pretended_host);
}

ls_status ls_discover_places(struct ls_discover *attempt, bool wanted, int pretended_host) {
    int size = attempt->ranks->size;
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct identity, all, (size_t)size, "an attempt at shared memory");
    all[attempt->ranks->rank] = (struct identity){.place = digest_place(pretended_host), .wanted = wanted};
    ls_status status = ls_discover_gather(attempt, "shared memory: places", all, sizeof(*all));
    if (status) return status;
    for (int rank = 0; rank < size; rank++) {
        attempt->leader[rank] = rank;
        attempt->wanted[rank] = all[rank].wanted;
        for (int other = 0; all[rank].wanted && other < rank && attempt->leader[rank] == rank; other++)
            if (attempt->leader[other] == other && all[other].wanted && all[other].place == all[rank].place)
                attempt->leader[rank] = other;
    }
    return LS_OK;
}

void ls_discover_follow(struct ls_discover *attempt) {
    const struct ls_hosts *hosts = attempt->ranks->hosts;
    for (int rank = 0; rank < hosts->size; rank++) {
        attempt->leader[rank] = hosts->members[hosts->start[hosts->host[rank]]];
        attempt->wanted[rank] = 1;
    }
}

int ls_discover_count(const struct ls_discover *attempt) {
    int count = 0, own = attempt->leader[attempt->ranks->rank];
    for (int i = 0; i < attempt->ranks->size; i++) count += attempt->leader[i] == own;
    return count;
}

/* ---- one segment for all ranks of a leader ---- */

/* Which ranks make a segment; where the offer of this rank's leader is among theirs, -1 if there is none. */
static int list_leaders(const struct ls_discover *attempt, bool *leads) {
    int own = attempt->leader[attempt->ranks->rank], count = 0, found = -1;
    for (int i = 0; i < attempt->ranks->size; i++)
        if (attempt->leader[i] != i) leads[attempt->leader[i]] = true;
    for (int i = 0; i < attempt->ranks->size; i++) {
        if (!leads[i]) continue;
        if (i == own) found = count;
        count++;
    }
    return found;
}

static size_t end_of(const struct ls_segment_part *parts, int count) {
    return count ? parts[count - 1].offset + parts[count - 1].size : 0;
}

static ls_status tell_outcome(struct ls_discover *attempt, int error) {
    attempt->errors[attempt->ranks->rank] = error;
    return ls_discover_gather(attempt, "shared memory: outcomes", attempt->errors, sizeof(*attempt->errors));
}

/* After the gather of the outcomes nobody needs the descriptor: each rank has then opened what it could. It is closed
 * then: /proc/PID/fd has no entry any more through which a later process could map the memory. */
ls_status ls_discover_segment(struct ls_discover *attempt, const struct ls_segment_part *parts, int count,
                              struct ls_segment *segment) {
    int size = attempt->ranks->size, rank = attempt->ranks->rank;
    struct offer own = {.address.fd = -1};
    LS_CLEANUP(ls_free_pointer) bool *leads = ls_alloc_array((size_t)size, sizeof(*leads));
    LS_CLEANUP(ls_free_pointer) struct offer *offers = ls_alloc_array((size_t)size, sizeof(*offers));
    if (!leads || !offers) return ls_fail_memory("an attempt at shared memory", (size_t)size * sizeof(*offers));
    int found = list_leaders(attempt, leads);
    *segment = (struct ls_segment){0};
    if (leads[rank]) own.error = ls_segment_make(parts, count, segment, &own.address);
    ls_status status =
        gather_attempt(attempt, "shared memory: segments", leads, (struct ls_bytes){&own, sizeof(own)}, offers);
    if (!status) {
        int error = own.error;
        if (found >= 0 && !leads[rank])
            error = offers[found].error ? offers[found].error
                                        : ls_segment_open(&offers[found].address, end_of(parts, count), segment);
        status = tell_outcome(attempt, error);
    }
    ls_segment_hide(&own.address);
    if (status) ls_segment_unmap(segment);
    return status;
}

/* ---- conclusions ---- */

/* All that have opened the segment of a leader share it, whether they could open each other's or not. */
ls_status ls_discover_hosts(const struct ls_discover *attempt, struct ls_hosts *hosts) {
    int size = attempt->ranks->size;
    LS_CLEANUP(ls_free_pointer) int *lowest = ls_alloc_array((size_t)size, sizeof(int));
    if (!lowest) return ls_fail_memory("a table of hosts", (size_t)size * sizeof(int));
    for (int i = 0; i < size; i++) lowest[i] = attempt->errors[i] ? i : attempt->leader[i];
    return ls_hosts_init(hosts, size, lowest);
}

/* The first rank of this rank's leader that has no segment; -1 if all have it. */
static int first_without(const struct ls_discover *attempt) {
    int own = attempt->leader[attempt->ranks->rank];
    for (int i = 0; i < attempt->ranks->size; i++)
        if (attempt->leader[i] == own && attempt->errors[i]) return i;
    return -1;
}

bool ls_discover_succeeded(const struct ls_discover *attempt) {
    return first_without(attempt) < 0;
}

static void explain(const struct ls_discover *attempt, int rank, char *reason, size_t size) {
    int leader = attempt->leader[rank],
        error = attempt->errors[leader] ? attempt->errors[leader] : attempt->errors[rank];
    if (attempt->errors[leader])
        (void)snprintf(reason, size, "rank %d cannot make a segment: %s", leader, strerror(error));
    else
        (void)snprintf(reason, size, "rank %d cannot open the segment of rank %d: %s", rank, leader,
                       error == LS_SEGMENT_ELSEWHERE ? "it is not on this host" : strerror(error));
}

void ls_discover_explain(const struct ls_discover *attempt, bool within_host, char *reason, size_t size) {
    *reason = 0;
    if (within_host) {
        int rank = first_without(attempt);
        if (rank >= 0) explain(attempt, rank, reason, size);
        return;
    }
    for (int i = 0; i < attempt->ranks->size; i++) {
        if (!attempt->wanted[i])
            (void)snprintf(reason, size, "rank %d is set to tcp", i);
        else if (attempt->errors[i])
            explain(attempt, i, reason, size);
        else if (attempt->leader[i] != attempt->leader[0])
            (void)snprintf(reason, size, "rank %d is not on the host of rank 0", i);
        if (*reason) return;
    }
}
