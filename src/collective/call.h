/* The steps that every collective takes. */
#pragma once
#include "collective/group_private.h"

ls_status ls_call_check_name(const char *name);
/* count elements of dtype as bytes that fit a pointer difference. */
ls_status ls_call_check_bytes(const char *name, ls_dtype dtype, size_t count);
ls_status ls_call_check_op(const char *name, ls_reduce_op op, ls_dtype dtype);
/* The elements of all ranks together; counts is [size]. */
ls_status ls_call_sum_counts(const struct ls_group *group, const char *name, ls_dtype dtype, const size_t *counts,
                             size_t *total);
/* The bytes of the ranks before that one. */
size_t ls_call_bytes_before(const size_t *counts, int rank, size_t element);
ls_status ls_call_check_communication(const char *name, ls_communication communication);
ls_status ls_call_missing_memory(const char *name, const char *which);
/* The next call's fingerprint; its schedule is empty. */
struct ls_call ls_call_begin(struct ls_group *group, enum ls_collective_kind kind, const char *name, ls_dtype dtype,
                             size_t count);
/* Precedes a wait for ranks that may be waiting for others in turn, as ranks of other hosts may. */
void ls_call_be_patient(struct ls_group *group);
/* Makes a call that was begun one over links with those peers only whose roles the caller then makes LS_ROLE_PARTNER.
 */
void ls_call_between_hosts(struct ls_group *group, struct ls_call *call);
/* Makes only those partners with whom the schedule exchanges bytes, where ranks are many. */
void ls_call_along_edges(struct ls_group *group, struct ls_call *call);
/* The same, however few ranks are: nobody waits for whom it sends bytes. The caller adds those without bytes whose
 * fingerprints matter, as LS_ROLE_SINK here and LS_ROLE_SOURCE there. */
void ls_call_one_way(struct ls_group *group, struct ls_call *call);
/* Continues a frame's layout by what the servers own. */
uint64_t ls_call_digest(uint64_t digest, const struct ls_stripe *owned, int servers);
/* The first rank of each host speaks for it: every host's fingerprint is compared with every other's. */
bool ls_call_is_speaker(const struct ls_group *group);
/* The same, and speakers are partners where they are few. */
void ls_call_between_speakers(struct ls_group *group, struct ls_call *call);
/* Lays out a meeting of the speakers, where they are too many to be partners all. By a speaker. */
void ls_call_meet_speakers(struct ls_group *group);
ls_status ls_call_run(struct ls_group *group, const struct ls_call *call);
/* Makes every failure the group's: the first cause counts, here and for later calls, and the other ranks receive it. */
ls_status ls_call_finish(struct ls_group *group, ls_status status);
