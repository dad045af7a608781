/* Letters: messages that a rank sends to any other rank. A rank takes them in the order in which they come, from any
 * rank. A letter to a rank waits in a queue while that rank takes nothing, and nobody else waits for it. Letters of one
 * pair keep their order. They go through the mailbox of the group, which has no other messages then. One thread.
 * Memory: the letters that are queued, and those that have come and are not taken. */
#pragma once
#include "collective/group.h"

#define LS_POST_HEAD 64 /* bytes that open a letter */

struct ls_post;
struct ls_letter {
    int from;
    unsigned char *bytes; /* [size] a head and what follows it; freed with ls_free */
    size_t size;
};
/* name is that of its letters, copied. The group is borrowed. */
ls_status ls_post_new(struct ls_group *group, const char *name, struct ls_post **post);
void ls_post_free(struct ls_post *post); /* drops what is queued */
/* Seconds between log lines of a wait; 0 logs none. */
double ls_post_report_interval(const struct ls_post *post);
/* Queues a letter to another rank. Takes body, [size] bytes to be freed with ls_free, also where it fails; NULL with
 * size 0. */
ls_status ls_post_send(struct ls_post *post, int to, const unsigned char head[LS_POST_HEAD], void *body, size_t size);
/* Waits for the next letter until then, and sends meanwhile what is queued. *found is false where none has come.
 * UNAVAILABLE: a rank is lost. A failure is the group's. */
ls_status ls_post_next(struct ls_post *post, int64_t until, struct ls_letter *letter, bool *found);
/* Waits for the next letter as a collective waits: it reports, and gives up after the group's timeout. what it waits
 * for is for people: "a ticket". */
ls_status ls_post_await(struct ls_post *post, const char *what, struct ls_letter *letter);
/* Waits until all that is queued has left, for the group's timeout at most. A failure is the group's. */
ls_status ls_post_flush(struct ls_post *post);
