/* A rank that gets more messages than it receives: it keeps the limit, and its senders wait. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collective/group_private.h"
#include "collective/messages/mail.h"
#include "collective/run/mailbox.h"
#include "collective/world.h"
#include "harness.h"

enum { LIMIT = 100000, LETTER = 60000, FLOOD = 40, WAYS = 3 };

static struct world_options way_of(int way, int size) {
    static const enum wire wires[WAYS] = {WIRE_LOCAL, WIRE_TCP, WIRE_RING};
    return (struct world_options){.size = size, .mail = true, .timeout = 60, .mail_limit = LIMIT, .wire = wires[way]};
}

static ls_status hand_on(struct rank *rank, int i, unsigned char *data) {
    if (rank->rank) memset(data, i, LETTER);
    ls_status status = rank->rank ? ls_mail_send(rank->group, LS_SEND("flood", data, LETTER, LS_UINT8))
                                  : ls_mail_receive(rank->group, LS_RECEIVE("flood", data, LETTER, LS_UINT8, 2));
    if (!status) ck_assert(data[0] == i && !memcmp(data, data + 1, LETTER - 1));
    return status;
}

/* Rank 2 sends more than rank 0 keeps; rank 0 waits for rank 1, which sends later. */
static ls_status keep_few(struct rank *rank) {
    unsigned char data[LETTER];
    const size_t *kept = &rank->group->mailbox->kept;
    ls_status status = LS_OK;
    if (rank->rank == 1) {
        (void)poll(NULL, 0, 50);
        return ls_mail_send(rank->group, LS_SEND("late", data, 10, LS_UINT8));
    }
    if (!rank->rank) status = ls_mail_receive(rank->group, LS_RECEIVE("late", data, 10, LS_UINT8, 1));
    ck_assert_uint_lt(*kept, LIMIT + LETTER + 1000);
    for (int i = 0; i < FLOOD && !status; i++) status = hand_on(rank, i, data);
    ck_assert_msg(status || !*kept, "%zu bytes are kept", *kept);
    return status;
}

TEST_EACH(a_full_box_reads_from_whom_it_waits_for, WAYS) {
    struct world_options options = way_of(_i, 3);
    struct world world;
    world_run(&options, keep_few, NULL, &world);
    world_expect_ok(&world, 3);
}

static ls_status ask_for_the_last(struct rank *rank) {
    unsigned char data[LETTER] = {0};
    ls_status status = LS_OK;
    if (!rank->rank) return ls_mail_receive(rank->group, LS_RECEIVE("last", data, LETTER, LS_UINT8, 1));
    for (int i = 0; i < 4 && !status; i++)
        status = ls_mail_send(rank->group, LS_SEND(i < 3 ? "early" : "last", data, LETTER, LS_UINT8));
    return status;
}

TEST_EACH(a_box_full_of_other_names_is_an_error, WAYS) {
    struct world_options options = way_of(_i, 2);
    struct world world;
    options.tells = true;
    world_run(&options, ask_for_the_last, NULL, &world);
    ck_assert_int_eq(world.ranks[0].status, LS_RESOURCE_EXHAUSTED);
    ck_assert_msg(strstr(world.ranks[0].error, "receive 'last' from rank 1: 'early' has come before it") != NULL, "%s",
                  world.ranks[0].error);
}

/* ---- a receive that gives way ---- */

static bool try_receive(const struct rank *rank, const char *name, int wake, unsigned char *data, ls_status *status) {
    bool received = false;
    if (!*status)
        *status = ls_mail_try_receive(rank->group, LS_RECEIVE(name, data, LETTER, LS_UINT8, 1), wake, &received);
    return received;
}

/* A byte in the pipe ends a wait, and so does another message; the one that is wanted comes whole. */
static ls_status give_way(struct rank *rank, int in, int out) {
    unsigned char data[LETTER] = {0};
    ls_status status = LS_OK;
    ck_assert(!try_receive(rank, "wanted", -1, data, &status));
    ck_assert_int_eq(write(out, "x", 1), 1);
    ck_assert(!try_receive(rank, "wanted", in, data, &status));
    ck_assert_int_eq(read(in, data, 1), 1);
    if (!status) status = ls_mail_send(rank->group, LS_SEND("go on", data, 1, LS_UINT8, 1));
    ck_assert(!try_receive(rank, "wanted", in, data, &status));
    ck_assert(try_receive(rank, "another", -1, data, &status));
    ck_assert(status || data[LETTER - 1] == 1);
    if (!status) status = ls_mail_send(rank->group, LS_SEND("go on", data, 1, LS_UINT8, 1));
    while (!status && !try_receive(rank, "wanted", in, data, &status)) continue;
    ck_assert(status || (data[0] == 2 && data[LETTER - 1] == 2));
    return status;
}

static ls_status send_when_told(struct rank *rank) {
    static const char *const names[] = {"another", "wanted"};
    unsigned char data[LETTER];
    ls_status status = LS_OK;
    for (int i = 0; i < 2 && !status; i++) {
        status = ls_mail_receive(rank->group, LS_RECEIVE("go on", data, 1, LS_UINT8));
        memset(data, i + 1, LETTER);
        if (!status) status = ls_mail_send(rank->group, LS_SEND(names[i], data, LETTER, LS_UINT8));
    }
    return status;
}

/* The message that comes while this rank sends or looks for others ends its next wait, too. */
static ls_status come_before_the_wait(struct rank *rank, int in, int out) {
    unsigned char data[LETTER] = {0};
    ls_status status = LS_OK;
    (void)out;
    if (rank->rank) {
        status = ls_mail_receive(rank->group, LS_RECEIVE("go on", data, 1, LS_UINT8));
        if (!status) status = ls_mail_send(rank->group, LS_SEND("another", data, LETTER, LS_UINT8));
        return status ? status : ls_mail_receive(rank->group, LS_RECEIVE("go on", data, 1, LS_UINT8));
    }
    uint64_t come = rank->group->mailbox->come;
    status = ls_mail_send(rank->group, LS_SEND("go on", data, 1, LS_UINT8, 1));
    while (!status && rank->group->mailbox->come == come) ck_assert(!try_receive(rank, "wanted", -1, data, &status));
    ck_assert(!try_receive(rank, "wanted", in, data, &status));
    ck_assert(try_receive(rank, "another", in, data, &status));
    return status ? status : ls_mail_send(rank->group, LS_SEND("go on", data, 1, LS_UINT8, 1));
}

typedef ls_status with_pipe_fn(struct rank *rank, int in, int out);

static ls_status with_pipe(struct rank *rank, with_pipe_fn *run) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ls_status status = run(rank, ends[0], ends[1]);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return status;
}

static ls_status come_early(struct rank *rank) {
    return with_pipe(rank, come_before_the_wait);
}

static ls_status give_way_or_send(struct rank *rank) {
    return rank->rank ? send_when_told(rank) : with_pipe(rank, give_way);
}

static void run_two(int way, ls_status (*run)(struct rank *rank)) {
    struct world_options options = way_of(way, 2);
    struct world world;
    options.mail_limit = 0;
    world_run(&options, run, NULL, &world);
    world_expect_ok(&world, 2);
}

TEST_EACH(what_came_before_a_wait_ends_it, WAYS) {
    run_two(_i, come_early);
}

TEST_EACH(a_receive_gives_way_to_another_message_and_to_a_descriptor, WAYS) {
    run_two(_i, give_way_or_send);
}

static ls_status try_alone(struct rank *rank) {
    unsigned char data[LETTER] = {0};
    const ls_receive_options *letter = LS_RECEIVE("own", data, 3, LS_UINT8, rank->rank);
    bool received = true;
    ls_status status = ls_mail_try_receive(rank->group, letter, 0, &received);
    ck_assert(!received);
    if (!status) status = ls_mail_send(rank->group, LS_SEND("own", "abc", 3, LS_UINT8, rank->rank));
    if (!status) status = ls_mail_try_receive(rank->group, letter, -1, &received);
    ck_assert(status || (received && !memcmp(data, "abc", 3)));
    return status;
}

TEST_EACH(a_rank_tries_for_its_own_message, WAYS) {
    struct world_options options = way_of(_i, 2);
    struct world world;
    world_run(&options, try_alone, NULL, &world);
    world_expect_ok(&world, 2);
}

TESTS("collective/mailbox")
