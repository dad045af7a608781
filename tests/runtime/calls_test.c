/* The structs of calls: of parts whose sizes only their senders know, begun in any order, and with what is wrong in
 * them. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "runtime/communicators.h"

static const char *const transports[] = {"shm", "tcp"};

static ls_status give_unequal(struct member *member) {
    static const char object[] = "an object";
    float rows[MAX_MEMBERS];
    char own[sizeof(object)];
    void *all = NULL, *copy = NULL;
    size_t counts[MAX_MEMBERS], size = 0, mine = (size_t)member->rank + 1, sum = 0;
    ls_pending *gathered = NULL, *told = NULL;
    memcpy(own, object, sizeof(object));
    for (size_t i = 0; i < mine; i++) rows[i] = (float)(member->rank * 10 + (int)i);
    const ls_broadcast_options *tell =
        LS_BROADCAST("object", member->rank ? NULL : own, sizeof(own), LS_UINT8, .allocated = &copy, .received = &size);
    ls_status status = ls_communicator_negotiate(member->communicator);
    ck_assert_int_eq(ls_all_gather_begin(member->communicator, LS_ALL_GATHER("x", rows, rows), &gathered),
                     LS_INVALID_ARGUMENT); /* without counts */
    if (!status && member->rank) status = ls_broadcast_begin(member->communicator, tell, &told);
    if (!status)
        status = ls_all_gather_begin(member->communicator,
                                     LS_ALL_GATHER("rows", rows, .count = mine, .allocated = &all, .received = counts),
                                     &gathered);
    if (!status && !member->rank) status = ls_broadcast_begin(member->communicator, tell, &told);
    if (!status) status = ls_pending_wait(gathered, 0);
    if (!status) status = ls_pending_wait(told, 0);
    if (!status) ck_assert(size == sizeof(object) && !memcmp(copy, object, size));
    for (int rank = 0; !status && rank < member->size; rank++) {
        ck_assert_uint_eq(counts[rank], (size_t)rank + 1);
        for (size_t i = 0; i < counts[rank]; i++) ck_assert(((float *)all)[sum++] == (float)(rank * 10 + (int)i));
    }
    ls_pending_free(gathered);
    ls_pending_free(told);
    ls_memory_free(all);
    ls_memory_free(copy);
    return status;
}

TEST_EACH(parts_of_unequal_sizes_begin_too, 2) {
    for (int size = 1; size <= 4; size++)
        members_run_ok(&(struct members_options){size, transports[_i]}, give_unequal, NULL);
}

static ls_status slip(struct member *member) {
    ls_communicator *communicator = member->communicator;
    float data[4] = {1, 2, 3, 4};
    const void *const inputs[1] = {data};
    void *const outputs[1] = {data};
    const size_t counts[1] = {4};
    void *made = NULL;
    assert_refused(ls_all_reduce(communicator, LS_ALL_REDUCE("x", data, .inputs = inputs, .outputs = outputs,
                                                             .counts = counts, .array_count = 1)),
                   "beside array_count 1");
    assert_refused(ls_all_reduce(communicator, LS_ALL_REDUCE("x", .inputs = inputs, .array_count = 1)),
                   "ls_all_reduce: outputs is NULL");
    assert_refused(ls_broadcast(communicator, LS_BROADCAST("x", data, 4, .allocated = &made)),
                   "ls_broadcast: received is NULL");
    ck_assert_int_eq(ls_all_gather(communicator, LS_ALL_GATHER("x", data, .count = 4, .allocated = &made)),
                     LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_all_to_all(communicator, LS_ALL_TO_ALL("x", data, counts, &made)), LS_INVALID_ARGUMENT);
    assert_refused(ls_all_reduce(communicator, &(ls_all_reduce_options){.name = "x"}),
                   "ls_all_reduce_options.size is 0");
    return ls_barrier(communicator, "nothing has happened");
}

TEST_EACH(a_slip_in_a_struct_is_named, 2) {
    members_run_ok(&(struct members_options){2, transports[_i]}, slip, NULL);
}

TESTS("runtime/calls", .seconds = 100)
