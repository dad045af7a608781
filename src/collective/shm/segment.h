/* A segment: memory that other processes of this host can map too. An anonymous file without a name in any file system:
 * it is gone when the last process that maps it has ended, however it ended. One process makes it for all: its parts
 * are the memory of one worker each. Only the parts have pages. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct ls_segment {
    unsigned char *memory; /* zeroed at first, aligned to a page; NULL if the segment is not mapped */
    size_t size;           /* of memory, with what lies between the parts */
};
struct ls_segment_part {
    size_t offset, size; /* bytes of the segment's memory; the offset is a multiple of a page */
};
/* The address by which other ranks find a segment. Its fields are numbers only: it goes over a link as it lies in
 * memory. */
struct ls_segment_address {
    uint64_t size;
    int32_t pid, fd;
    unsigned char nonce[16]; /* also written in front of the memory; it identifies the segment */
};
#define LS_SEGMENT_ELSEWHERE (-1) /* no error number: the address leads to no such segment here */

/* Both return 0, or an error number, or LS_SEGMENT_ELSEWHERE. The segment ends where its last part ends. address->fd is
 * open until ls_segment_hide. size: what the segment must have. */
int ls_segment_make(const struct ls_segment_part *parts, int count, struct ls_segment *segment,
                    struct ls_segment_address *address);
int ls_segment_open(const struct ls_segment_address *address, size_t size, struct ls_segment *segment);
/* Maps the part's pages now. Else each is mapped when it is used first. */
void ls_segment_populate(const struct ls_segment *segment, const struct ls_segment_part *part);
/* Maps the pages that hold these bytes of a segment, and no more. A read that comes first would map up to 15 pages
 * around each. Nobody else may write to the bytes. */
void ls_segment_touch(unsigned char *bytes, size_t size);
/* Closes the segment to further openers; mappings stay. */
void ls_segment_hide(struct ls_segment_address *address);
void ls_segment_unmap(struct ls_segment *segment);
