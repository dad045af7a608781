/* Data links over gRPC, a pair at a time: order, partial sends, a reader that lags behind, ends, and refusals. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/monitor.h"
#include "base/thread.h"
#include "cluster/message.h"
#include "cluster/rpc/rpc.h"
#include "cluster/rpc/rpc_link.h"
#include "cluster/rpc/rpc_stream.h"
#include "harness.h"

#define SOON       (10 * LS_SECOND)
#define MOST_AHEAD ((size_t)64 << 20) /* bytes that a sender may be ahead: far less than it would like to send */
#define WANTED     ((size_t)256 << 20)
#define STEP       65536
#define ALLOWED    "open sesame"

struct side {
    struct ls_monitor monitor;
    struct ls_rpc *rpc;
    struct ls_link *link;
    bool slow, arrived, cancelled; /* slow: the other side cancels while this one accepts */
};

static void no_message(void *context, struct ls_rpc_stream *stream, const void *data, size_t size) {
    (void)context, (void)stream, (void)data, (void)size;
    ck_abort_msg("a control message");
}

static void no_stream(void *context, struct ls_rpc_stream *stream) {
    (void)context, (void)stream;
}

/* The other side cancels, and this thread itself takes what gRPC says of it. */
static void wait_for_cancel(struct side *side, struct ls_link *link) {
    unsigned char byte;
    int64_t until = ls_now() + SOON;
    ls_monitor_lock(&side->monitor);
    side->arrived = true;
    ls_monitor_broadcast(&side->monitor);
    while (!side->cancelled && ls_monitor_wait(&side->monitor, until)) continue;
    ls_monitor_unlock(&side->monitor);
    while (link->ops->receive(link, &byte, 1) >= 0 && ls_now() < until) link->ops->wait(link, 10);
    for (int i = 0; i < 10; i++) link->ops->wait(link, 10); /* the call's end too */
}

static bool arrive(void *context, const struct ls_rpc_caller *caller, const void *preface, size_t size,
                   struct ls_link *link) {
    (void)caller;
    struct side *side = context;
    if (side->slow) wait_for_cancel(side, link);
    if (size != sizeof(ALLOWED) || memcmp(preface, ALLOWED, size) != 0) return false;
    ls_monitor_lock(&side->monitor);
    side->link = link;
    ls_monitor_broadcast(&side->monitor);
    ls_monitor_unlock(&side->monitor);
    return true;
}

static void change(void *context) {
    struct side *side = context;
    ls_monitor_lock(&side->monitor);
    ls_monitor_broadcast(&side->monitor);
    ls_monitor_unlock(&side->monitor);
}

static void start_side(struct side *side) {
    struct ls_rpc_config config = {.monitor = &side->monitor,
                                   .context = side,
                                   .message_max = LS_MESSAGE_MAX,
                                   .streams_most = 64,
                                   .silence_timeout = 10,
                                   .message = no_message,
                                   .closed = no_stream,
                                   .link_arrived = arrive,
                                   .link_changed = change};
    side->link = NULL;
    assert_ok(ls_monitor_init(&side->monitor));
    assert_ok(ls_rpc_new(&config, &side->rpc));
}

static void connect_pair(int fds[2]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listening, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listening, 1), 0);
    ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    ck_assert_int_eq(connect(fds[0], (struct sockaddr *)&address, size), 0);
    fds[1] = accept(listening, NULL, NULL);
    ck_assert_int_ge(fds[1], 0);
    (void)close(listening);
}

/* The first side dials and shows the preface. */
static void begin_dial(struct side sides[2], const char *preface) {
    int fds[2];
    start_side(&sides[0]);
    start_side(&sides[1]);
    connect_pair(fds);
    ls_monitor_lock(&sides[1].monitor);
    ls_rpc_serve(sides[1].rpc, fds[1]);
    ls_monitor_unlock(&sides[1].monitor);
    ls_monitor_lock(&sides[0].monitor);
    ls_status status = ls_rpc_link_open(sides[0].rpc, fds[0], "target", preface, strlen(preface) + 1, &sides[0].link);
    assert_ok(status);
    ls_monitor_unlock(&sides[0].monitor);
}

/* Returns what became of its link. */
static enum ls_rpc_link_state dial(struct side sides[2], const char *preface) {
    int64_t deadline = ls_now() + SOON;
    begin_dial(sides, preface);
    ls_monitor_lock(&sides[0].monitor);
    while (ls_rpc_link_state(sides[0].link) == LS_RPC_LINK_OPENING && ls_monitor_wait(&sides[0].monitor, deadline))
        continue;
    ls_monitor_unlock(&sides[0].monitor);
    return ls_rpc_link_state(sides[0].link);
}

static void open_pair(struct side sides[2]) {
    ck_assert_int_eq(dial(sides, ALLOWED), LS_RPC_LINK_OPEN);
    ls_monitor_lock(&sides[1].monitor);
    ck_assert_ptr_nonnull(sides[1].link); /* it is there before the answer goes out */
    ls_monitor_unlock(&sides[1].monitor);
}

static void close_side(struct side *side) {
    if (side->link) side->link->ops->close(side->link);
    side->link = NULL;
}

static void end_side(struct side *side) {
    ls_rpc_free(side->rpc);
    ls_monitor_destroy(&side->monitor);
}

static void stop_pair(struct side sides[2]) {
    for (int i = 0; i < 2; i++) {
        close_side(&sides[i]);
        end_side(&sides[i]);
    }
}

static void wait_for(struct ls_link *link) {
    link->ops->wait(link, 10);
}

static unsigned char byte_at(size_t position) {
    return (unsigned char)((position * 2654435761U) >> 13);
}

/* A stream of bytes that is sent in odd pieces and taken in odd portions. */
struct flow {
    struct ls_link *from, *to;
    size_t sent, taken, total;
    unsigned random;
};

static size_t odd_size(struct flow *flow, size_t most) {
    flow->random = flow->random * 1664525 + 1013904223;
    return 1 + (flow->random >> 8) % most;
}

static bool send_some(struct flow *flow) {
    static unsigned char data[3 * 70000];
    struct iovec pieces[3];
    size_t used = 0;
    for (int i = 0; i < 3; i++) {
        size_t size = odd_size(flow, flow->random & 4096 ? 70000 : 50);
        pieces[i] = (struct iovec){data + used, size};
        used += size;
    }
    if (used > flow->total - flow->sent) pieces[0].iov_len = used = flow->total - flow->sent;
    for (size_t i = 0; i < used; i++) data[i] = byte_at(flow->sent + i);
    if (!used) return false;
    ssize_t sent = flow->from->ops->send(flow->from, pieces, pieces[0].iov_len == used ? 1 : 3);
    ck_assert_int_ge(sent, 0);
    ck_assert_uint_le((size_t)sent, used);
    flow->sent += (size_t)sent;
    return sent > 0;
}

static bool take_some(struct flow *flow) {
    static unsigned char data[70000];
    size_t size = odd_size(flow, sizeof(data)), wrong = 0;
    ssize_t taken = flow->to->ops->receive(flow->to, data, size);
    ck_assert_int_ge(taken, 0);
    ck_assert_uint_le((size_t)taken, size);
    for (ssize_t i = 0; i < taken; i++) wrong += data[i] != byte_at(flow->taken + (size_t)i);
    ck_assert_uint_eq(wrong, 0);
    flow->taken += (size_t)taken;
    return taken > 0;
}

/* Both ends of a flow, whatever the first of them did. */
static bool move_some(struct flow *flow) {
    bool sent = send_some(flow);
    return take_some(flow) || sent;
}

START_TEST(bytes_come_in_order_both_ways) {
    struct side sides[2] = {{.link = NULL}};
    open_pair(sides);
    struct flow flows[2] = {{.from = sides[0].link, .to = sides[1].link, .total = 9000001, .random = 1},
                            {.from = sides[1].link, .to = sides[0].link, .total = 7000003, .random = 2}};
    while (flows[0].taken < flows[0].total || flows[1].taken < flows[1].total) {
        bool moved = false;
        for (int i = 0; i < 2; i++) moved = move_some(&flows[i]) || moved;
        if (!moved) wait_for(sides[0].link);
        if (!moved) wait_for(sides[1].link);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(flows[i].sent, flows[i].total);
        for (int64_t until = ls_now() + SOON; !sides[i].link->ops->flushed(sides[i].link); wait_for(sides[i].link))
            ck_assert_int_lt(ls_now(), until);
    }
    stop_pair(sides);
}
END_TEST

/* Until nothing has gone for half a second. */
static void send_until_held_back(struct flow *flow) {
    for (int64_t moved = ls_now(); ls_now() - moved < LS_SECOND / 2;) {
        if (send_some(flow))
            moved = ls_now();
        else
            wait_for(flow->from);
    }
}

START_TEST(a_sender_far_ahead_is_held_back) {
    struct side sides[2] = {{.link = NULL}};
    open_pair(sides);
    struct flow flow = {.from = sides[0].link, .to = sides[1].link, .total = WANTED, .random = 3};
    send_until_held_back(&flow);
    ck_assert_uint_gt(flow.sent, STEP);
    ck_assert_uint_lt(flow.sent, MOST_AHEAD);
    ck_assert(!flow.from->ops->flushed(flow.from));
    flow.total = flow.sent + 1000003; /* it goes on once the other side reads */
    for (int64_t until = ls_now() + SOON; flow.taken < flow.total;) {
        ck_assert_int_lt(ls_now(), until);
        if (!move_some(&flow)) wait_for(flow.to);
    }
    stop_pair(sides);
}
END_TEST

/* Both directions of the other side's link end. */
static void expect_end(struct ls_link *link) {
    static unsigned char data[STEP];
    struct iovec piece = {data, 1};
    ssize_t result;
    int64_t until = ls_now() + SOON;
    while ((result = link->ops->receive(link, data, sizeof(data))) >= 0 && ls_now() < until)
        if (!result) wait_for(link);
    ck_assert_int_eq(result, -1);
    ck_assert_int_eq(errno, ECONNRESET);
    ck_assert_int_eq(link->ops->send(link, &piece, 1), -1);
    ck_assert_int_eq(errno, ECONNRESET);
    ck_assert(link->ops->flushed(link)); /* nobody waits for what will never leave */
}

START_TEST(a_closed_link_ends_on_the_other_side) {
    struct side sides[2] = {{.link = NULL}};
    open_pair(sides);
    close_side(&sides[_i]);
    expect_end(sides[1 - _i].link);
    stop_pair(sides);
}
END_TEST

/* ... also in the middle of a stream that nobody reads. */
START_TEST(a_link_closed_with_bytes_on_the_way) {
    struct side sides[2] = {{.link = NULL}};
    open_pair(sides);
    struct flow flow = {.from = sides[_i].link, .to = sides[1 - _i].link, .total = WANTED, .random = 4};
    send_until_held_back(&flow);
    close_side(&sides[1 - _i]);
    expect_end(sides[_i].link);
    stop_pair(sides);
}
END_TEST

START_TEST(a_link_outlives_its_rpc) {
    struct side sides[2] = {{.link = NULL}};
    open_pair(sides);
    struct flow flow = {.from = sides[0].link, .to = sides[1].link, .total = WANTED, .random = 5};
    send_until_held_back(&flow);
    end_side(&sides[0]);
    expect_end(sides[0].link);
    expect_end(sides[1].link);
    close_side(&sides[0]);
    close_side(&sides[1]);
    end_side(&sides[1]);
}
END_TEST

START_TEST(who_shows_no_good_preface_is_refused) {
    struct side sides[2] = {{.link = NULL}};
    ck_assert_int_eq(dial(sides, "open barley"), LS_RPC_LINK_CLOSED);
    ck_assert_ptr_null(sides[1].link);
    expect_end(sides[0].link);
    stop_pair(sides);
}
END_TEST

/* A communicator may drive the queue while the poller accepts a link, so that the call's end is seen to before the
 * accepting has come to its own. _i: whether the link is taken. */
START_TEST(a_link_cancelled_while_it_is_accepted) {
    struct side sides[2] = {{.link = NULL}, {.slow = true}};
    int64_t deadline = ls_now() + SOON;
    begin_dial(sides, _i ? ALLOWED : "open barley");
    ls_monitor_lock(&sides[1].monitor);
    while (!sides[1].arrived && ls_monitor_wait(&sides[1].monitor, deadline)) continue;
    ck_assert(sides[1].arrived);
    close_side(&sides[0]);
    sides[1].cancelled = true;
    ls_monitor_broadcast(&sides[1].monitor);
    while (_i && !sides[1].link && ls_monitor_wait(&sides[1].monitor, deadline)) continue;
    ls_monitor_unlock(&sides[1].monitor);
    if (_i) expect_end(sides[1].link);
    stop_pair(sides);
}
END_TEST

static void *wait_long(void *argument) {
    struct ls_link *link = argument;
    unsigned char byte;
    int64_t until = ls_now() + SOON;
    while (link->ops->receive(link, &byte, 1) == 0 && ls_now() < until) link->ops->wait(link, 1000);
    return NULL;
}

/* After a pause the poller has the queue: it sees the first byte, and must wake who has come to wait. */
START_TEST(a_waiter_wakes_at_once) {
    struct side sides[2] = {{.link = NULL}};
    double slowest = 0, sum = 0;
    open_pair(sides);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        unsigned char byte = 1;
        struct iovec piece = {&byte, 1};
        (void)usleep(20000);
        assert_ok(ls_thread_start(&thread, "waiter", wait_long, sides[1].link));
        (void)usleep(10000);
        int64_t start = ls_now();
        ck_assert_int_eq(sides[0].link->ops->send(sides[0].link, &piece, 1), 1);
        (void)pthread_join(thread, NULL);
        sum += ls_seconds_since(start);
        if (ls_seconds_since(start) > slowest) slowest = ls_seconds_since(start);
    }
    ck_assert_double_lt(slowest, 5);
    ck_assert_double_lt(sum / 10, 0.02); /* looking up by itself would take 0.05 at most, 0.025 in the mean */
    stop_pair(sides);
}
END_TEST

struct driver {
    struct ls_link *link;
    atomic_bool over;
};

static void *drive(void *argument) {
    struct driver *driver = argument;
    while (!atomic_load(&driver->over)) driver->link->ops->wait(driver->link, 1);
    return NULL;
}

/* gRPC ends the process when something is begun on a queue that is down. */
START_TEST(a_driver_stays_while_all_ends) {
    for (int i = 0; i < 10; i++) {
        struct side sides[2] = {{.link = NULL}};
        pthread_t thread;
        open_pair(sides);
        struct driver driver = {.link = sides[0].link};
        assert_ok(ls_thread_start(&thread, "driver", drive, &driver));
        (void)usleep(2000);
        end_side(&sides[0]);
        atomic_store(&driver.over, true);
        (void)pthread_join(thread, NULL);
        close_side(&sides[0]);
        close_side(&sides[1]);
        end_side(&sides[1]);
    }
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("cluster/link");
    TCase *tests = tcase_create("link");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, bytes_come_in_order_both_ways);
    tcase_add_test(tests, a_sender_far_ahead_is_held_back);
    tcase_add_loop_test(tests, a_closed_link_ends_on_the_other_side, 0, 2);
    tcase_add_loop_test(tests, a_link_closed_with_bytes_on_the_way, 0, 2);
    tcase_add_test(tests, a_link_outlives_its_rpc);
    tcase_add_test(tests, who_shows_no_good_preface_is_refused);
    tcase_add_loop_test(tests, a_link_cancelled_while_it_is_accepted, 0, 2);
    tcase_add_test(tests, a_driver_stays_while_all_ends);
    tcase_add_test(tests, a_waiter_wakes_at_once);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void) {
    return run_suite(suite());
}
