/* A segment: memory that other processes of this host can map too. An anonymous file without a name in any file system:
 * it is gone when the last process that maps it has ended, however it ended. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct ls_segment {
    unsigned char *memory; /* zeroed at first, aligned to a page; NULL: none */
    size_t size;           /* of memory */
};
/* Where others find it. Numbers only: it goes over a link as it lies in memory. */
struct ls_segment_address {
    uint64_t size;
    int32_t pid, fd;
    unsigned char nonce[16]; /* also written in front of the memory: what has it is the segment that is meant */
};
#define LS_SEGMENT_ELSEWHERE (-1) /* no error number: the address leads to no such segment here */

/* Both return 0, or an error number, or LS_SEGMENT_ELSEWHERE. address->fd is open until ls_segment_hide. place: its
 * number among the segments whose bytes at equal offsets will be used together. */
int ls_segment_make(size_t size, int place, struct ls_segment *segment, struct ls_segment_address *address);
int ls_segment_open(const struct ls_segment_address *address, int place, struct ls_segment *segment);
/* Nobody can open it any more; mappings stay. */
void ls_segment_hide(struct ls_segment_address *address);
void ls_segment_unmap(struct ls_segment *segment);
