/* The network behind cluster/rpc and cluster/net/dial.c. A control stream has two ends; what one says travels as
 * letters. A process reads its letters one after the other, each for a moment, so that one who hears from all is as busy
 * as it would be. */
#include "simulation/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/rpc/rpc.h"
#include "cluster/rpc/rpc_stream.h"
#include "simulation/clock_world.h"
#include "simulation/libc.h"
#include "simulation/names.h"
#include "simulation/process.h"

#define LEAST_DELAY   (50 * LS_MICROSECOND)
#define MOST_DELAY    (300 * LS_MICROSECOND)
#define LINK_RATE     INT64_C(1250000000) /* bytes a second out of a process: 10 Gbit/s */
#define READING       (5 * LS_MICROSECOND) /* of a message, ... */
#define READING_RATE  INT64_C(1000000000)  /* ... and of its bytes a second */
#define RETRANSMIT    (200 * LS_MILLISECOND)
#define SYN_AGAIN     LS_SECOND
#define USER_TIMEOUT  (30 * LS_SECOND) /* until a kernel gives up a connection that nobody answers */
#define SMALLEST_SIZE 64

struct payload {
    int references;
    size_t size;
    uint8_t data[];
};

enum letter_kind { LETTER_MESSAGE, LETTER_FINISH, LETTER_END };

struct letter {
    struct letter *next;
    struct wire *wire;
    struct ls_rpc_stream *to;
    enum letter_kind kind;
    bool by_kernel;
    struct payload *payload;
};

struct ls_rpc_stream {
    struct wire *wire;
    struct process *process;
    struct ls_rpc_stream *next, **back; /* of its process' open ends */
    void *user, *attachment;
    struct ls_rpc_caller caller;
    bool incoming, open, quiet, finishing, by_kernel;
    bool loses;                /* it was dropped, and what was under way is lost */
    int64_t departed, arrives; /* its last message: out of the process; at the other end */
    int64_t deadline;
};

struct wire {
    struct ls_rpc_stream ends[2]; /* of who dials; of who is dialled */
    int references;
};

struct wires {
    struct process *process;
    struct wires *next;
    struct ls_rpc *rpc; /* NULL: it has none any more */
    struct ls_rpc_stream *streams;
    struct wire_traffic *traffic;
    struct letter *first, **last; /* that wait to be read */
    bool reading, listens;
    int64_t sends_until;
    int64_t dead_since; /* without power; 0: it has some */
};

struct ls_rpc {
    struct ls_rpc_config config;
    unsigned served, looked;
    int incoming;
    bool stopping;
};

static struct {
    int tasks;
    struct wires **listening; /* [tasks] */
    struct wires *all;
    struct payload *last; /* that was sent: many get the same one after the other */
    const uint8_t *sides;
    int64_t cut_from, cut_until;
} net;

static void must(const void *memory) {
    if (memory) return;
    (void)fprintf(stderr, "simulation: no memory\n");
    abort();
}

/* ---- Cuts ---------------------------------------------------------------------------------------------------------- */

/* Since when nothing passes between the two; 0: it does. */
static int64_t cut_since(const struct process *a, const struct process *b, int64_t now) {
    int64_t dead = a->wires->dead_since ? a->wires->dead_since : b->wires->dead_since;
    if (dead) return dead;
    bool apart = net.sides && net.sides[a->rank] != net.sides[b->rank];
    return apart && now >= net.cut_from && now < net.cut_until ? net.cut_from : 0;
}

/* The time at which what would arrive then does arrive. */
static int64_t after_cut(const struct process *a, const struct process *b, int64_t arrives) {
    if (a->wires->dead_since || b->wires->dead_since) return LS_NEVER;
    if (!cut_since(a, b, arrives) || net.cut_until == LS_NEVER) return cut_since(a, b, arrives) ? LS_NEVER : arrives;
    return net.cut_until + clock_between(0, RETRANSMIT);
}

/* ---- Letters -------------------------------------------------------------------------------------------------------- */

static void release_wire(struct wire *wire) {
    if (--wire->references) return;
    for (int i = 0; i < 2; i++) free(wire->ends[i].attachment);
    free(wire);
}

static void release_payload(struct payload *payload) {
    if (payload && !--payload->references) free(payload);
}

static void free_letter(struct letter *letter) {
    release_payload(letter->payload);
    release_wire(letter->wire);
    free(letter);
}

static struct ls_rpc_stream *other_end(const struct ls_rpc_stream *end) {
    return &end->wire->ends[!end->incoming];
}

static void add_end(struct ls_rpc_stream *end) {
    struct wires *wires = end->process->wires;
    end->open = true;
    end->next = wires->streams;
    if (end->next) end->next->back = &end->next;
    end->back = &wires->streams;
    wires->streams = end;
    end->wire->references++;
    wires->rpc->incoming += end->incoming;
    struct wire_traffic *traffic = wires->traffic;
    if (++traffic->streams > traffic->most_streams) traffic->most_streams = traffic->streams;
}

static void remove_end(struct ls_rpc_stream *end) {
    struct wires *wires = end->process->wires;
    end->open = false;
    *end->back = end->next;
    if (end->next) end->next->back = end->back;
    if (wires->rpc) wires->rpc->incoming -= end->incoming;
    wires->traffic->streams--;
    release_wire(end->wire);
}

static void close_end(struct ls_rpc_stream *end) {
    const struct ls_rpc_config *config = &end->process->wires->rpc->config;
    if (!end->open) return;
    end->open = false; /* before the callback looks */
    if (!end->quiet) config->closed(config->context, end);
    end->quiet = true;
    remove_end(end);
}

static void arrive(void *context, uint64_t number);

static void post(struct ls_rpc_stream *from, enum letter_kind kind, struct payload *payload, bool by_kernel) {
    struct ls_rpc_stream *to = other_end(from);
    struct wires *wires = from->process->wires;
    struct letter *letter = calloc(1, sizeof(*letter));
    must(letter);
    *letter = (struct letter){.wire = from->wire, .to = to, .kind = kind, .by_kernel = by_kernel, .payload = payload};
    from->wire->references++;
    int64_t size = payload ? (int64_t)payload->size : SMALLEST_SIZE;
    int64_t begins = wires->sends_until > clock_now() ? wires->sends_until : clock_now();
    from->departed = wires->sends_until = begins + size * LS_SECOND / LINK_RATE;
    int64_t arrives = from->departed + clock_between(LEAST_DELAY, MOST_DELAY) + from->process->slow + to->process->slow;
    if (arrives <= from->arrives) arrives = from->arrives + 1;
    arrives = after_cut(from->process, to->process, arrives);
    if (arrives == LS_NEVER)
        free_letter(letter);
    else
        clock_at(from->arrives = arrives, arrive, letter, 0);
}

static int64_t reading_time(const struct letter *letter) {
    return READING + (letter->payload ? (int64_t)letter->payload->size * LS_SECOND / READING_RATE : 0);
}

static void refuse_stream(struct ls_rpc_stream *end) {
    post(end, LETTER_END, NULL, false);
}

/* A stream appears with its first message. */
static bool appears(struct ls_rpc_stream *end) {
    const struct ls_rpc *rpc = end->process->wires->rpc;
    if (end->open || end->quiet || !end->incoming) return end->open;
    if (rpc->stopping || rpc->incoming >= rpc->config.streams_most) {
        end->quiet = true;
        refuse_stream(end);
        return false;
    }
    add_end(end);
    return true;
}

static void read_letter(struct wires *wires, const struct letter *letter) {
    struct ls_rpc_stream *end = letter->to;
    const struct ls_rpc_config *config = &wires->rpc->config;
    bool lost = other_end(end)->loses;
    if (letter->kind == LETTER_MESSAGE && !lost && appears(end) && !end->quiet) {
        wires->traffic->received++;
        wires->traffic->bytes += letter->payload->size;
        config->message(config->context, end, letter->payload->data, letter->payload->size);
    }
    if (letter->kind == LETTER_MESSAGE || !end->open) return;
    end->by_kernel = letter->by_kernel;
    if (letter->kind == LETTER_FINISH) post(end, LETTER_END, NULL, false);
    close_end(end);
}

/* A connection that nobody has read from yet ends too. */
static void reset_stranger(const struct letter *letter) {
    struct ls_rpc_stream *end = letter->to;
    if (letter->kind != LETTER_MESSAGE || !end->incoming || end->open || end->quiet) return;
    end->quiet = true;
    post(end, LETTER_END, NULL, true);
}

static struct letter *take_letter(struct wires *wires) {
    struct letter *letter = wires->first;
    if (!letter) return NULL;
    wires->first = letter->next;
    if (!wires->first) wires->last = &wires->first;
    return letter;
}

static void serve(void *context, uint64_t number) {
    struct wires *wires = context;
    int64_t thaws = wires->process->frozen_until;
    (void)number;
    if (wires->process->alive && thaws > clock_now()) {
        clock_at(thaws, serve, wires, 0);
        return;
    }
    struct letter *letter = take_letter(wires);
    if (!letter) return;
    if (wires->process->alive && wires->rpc) {
        struct process *before = process_enter(wires->process);
        read_letter(wires, letter);
        wires->rpc->served++;
        ls_monitor_broadcast(wires->rpc->config.monitor);
        (void)process_enter(before);
    }
    free_letter(letter);
    wires->reading = wires->first != NULL;
    if (wires->reading) clock_at(clock_now() + reading_time(wires->first), serve, wires, 0);
}

static void put_letter(struct wires *wires, struct letter *letter) {
    *wires->last = letter;
    wires->last = &letter->next;
    if (wires->reading) return;
    wires->reading = true;
    clock_at(clock_now() + reading_time(letter), serve, wires, 0);
}

static void arrive(void *context, uint64_t number) {
    struct letter *letter = context;
    (void)number;
    if (letter->to->process->alive && letter->to->process->wires->rpc) {
        put_letter(letter->to->process->wires, letter);
        return;
    }
    reset_stranger(letter);
    free_letter(letter);
}

/* ---- Processes ------------------------------------------------------------------------------------------------------ */

void wire_begin(int tasks) {
    memset(&net, 0, sizeof(net));
    net.tasks = tasks;
    net.listening = calloc((size_t)tasks, sizeof(struct wires *));
    must(net.listening);
}

void wire_end(void) {
    release_payload(net.last);
    free(net.listening);
}

void wire_add(struct process *process, struct wire_traffic *traffic) {
    struct wires *wires = calloc(1, sizeof(*wires));
    must(wires);
    *wires = (struct wires){.process = process, .next = net.all, .traffic = traffic, .last = &wires->first};
    process->wires = net.all = wires;
}

void wire_free(struct process *process) {
    struct wires *wires = process->wires;
    for (struct wires **at = &net.all; *at; at = &(*at)->next)
        if (*at == wires) {
            *at = wires->next;
            break;
        }
    free(wires);
}

int wire_streams(const struct process *process) {
    return process->wires->traffic->streams;
}

static void end_all(struct process *process, bool tells) {
    struct wires *wires = process->wires;
    if (net.listening[process->rank] == wires) net.listening[process->rank] = NULL;
    while (wires->streams) {
        struct ls_rpc_stream *end = wires->streams;
        if (tells && !end->quiet) post(end, LETTER_END, NULL, true);
        end->quiet = true;
        end->attachment = NULL; /* its memory ends with the process */
        remove_end(end);
    }
    for (struct letter *letter = take_letter(wires); letter; letter = take_letter(wires)) {
        if (tells) reset_stranger(letter);
        free_letter(letter);
    }
    wires->rpc = NULL;
}

void wire_kill(struct process *process) {
    end_all(process, true);
}

/* The kernel of each other side finds out by itself. */
static void time_out(void *context, uint64_t number) {
    struct letter *letter = context;
    arrive(letter, number);
}

static void end_later(struct ls_rpc_stream *end, int64_t at) {
    struct letter *letter = calloc(1, sizeof(*letter));
    must(letter);
    *letter = (struct letter){.wire = end->wire, .to = end, .kind = LETTER_END};
    end->wire->references++;
    clock_at(at, time_out, letter, 0);
}

void wire_crash(struct process *process) {
    struct wires *wires = process->wires;
    wires->dead_since = clock_now();
    for (struct ls_rpc_stream *end = wires->streams; end; end = end->next)
        end_later(other_end(end), clock_now() + USER_TIMEOUT);
    end_all(process, false);
}

static void end_cut_streams(void *context, uint64_t number) {
    (void)context, (void)number;
    for (struct wires *wires = net.all; wires; wires = wires->next)
        for (struct ls_rpc_stream *end = wires->streams; end; end = end->next)
            if (cut_since(end->process, other_end(end)->process, clock_now())) end_later(end, clock_now());
}

void wire_cut(const uint8_t *sides, int64_t until) {
    net.sides = sides;
    net.cut_from = clock_now();
    net.cut_until = until;
    if (until > clock_now() + USER_TIMEOUT) clock_at(clock_now() + USER_TIMEOUT, end_cut_streams, NULL, 0);
}

/* ---- Sockets that connect, for net/dial.c ------------------------------------------------------------------------- */

int __wrap_socket(int family, int type, int protocol) {
    (void)family, (void)type, (void)protocol;
    return descriptor_new(true);
}

static struct descriptor *same_socket(const void *context, uint64_t serial) {
    struct descriptor *descriptor = descriptor_of((int)(intptr_t)context);
    return descriptor && descriptor->serial == serial ? descriptor : NULL;
}

static void finish_connect(void *context, uint64_t serial) {
    struct descriptor *descriptor = same_socket(context, serial);
    if (!descriptor) return;
    if (descriptor->remote && !descriptor->remote->alive) descriptor->error = ECONNREFUSED;
    descriptor_set_ready(descriptor);
}

/* A kernel answers, also for a process that is frozen. */
static void reach(void *context, uint64_t serial) {
    struct descriptor *descriptor = same_socket(context, serial);
    if (!descriptor) return;
    int rank = (int)descriptor->count;
    struct wires *there = rank < net.tasks ? net.listening[rank] : NULL;
    struct process *own = descriptor->process;
    bool apart = net.sides && net.sides[own->rank] != net.sides[rank] && clock_now() >= net.cut_from &&
                 clock_now() < net.cut_until;
    if (apart || (there && there->dead_since)) {
        clock_at(clock_now() + SYN_AGAIN, reach, context, serial);
        return;
    }
    descriptor->remote = there ? there->process : NULL;
    descriptor->error = there ? 0 : ECONNREFUSED;
    clock_at(clock_now() + clock_between(LEAST_DELAY, MOST_DELAY), finish_connect, context, serial);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size) {
    const struct sockaddr_in *inet = (const struct sockaddr_in *)(const void *)address;
    struct descriptor *descriptor = descriptor_of(fd);
    (void)size;
    descriptor->count = (uint64_t)names_rank(inet);
    int64_t at = clock_now() + clock_between(LEAST_DELAY, MOST_DELAY) + descriptor->process->slow;
    clock_at(at, reach, (void *)(intptr_t)fd, descriptor->serial); /* NOLINT */
    errno = EINPROGRESS;
    return -1;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size) {
    const struct descriptor *descriptor = descriptor_of(fd);
    (void)level, (void)option, (void)size;
    if (!descriptor) return -1;
    *(int *)value = descriptor->error;
    return 0;
}

/* ---- cluster/rpc/rpc.h ------------------------------------------------------------------------------------------------ */

ls_status ls_rpc_new(const struct ls_rpc_config *config, struct ls_rpc **made) {
    struct ls_rpc *rpc = ls_alloc(sizeof(*rpc));
    if (!rpc) return ls_fail_memory("the control streams", sizeof(*rpc));
    rpc->config = *config;
    process_now()->wires->rpc = *made = rpc;
    return LS_OK;
}

void ls_rpc_free(struct ls_rpc *rpc) {
    struct wires *wires = process_now()->wires;
    if (!rpc) return;
    rpc->stopping = true;
    for (struct ls_rpc_stream *end = wires->streams; end; end = wires->streams) ls_rpc_stream_drop(end);
    wires->rpc = NULL;
    ls_free(rpc);
}

bool ls_rpc_is_served(struct ls_rpc *rpc) {
    bool moved = rpc->served != rpc->looked;
    rpc->looked = rpc->served;
    return moved;
}

void ls_rpc_nudge(struct ls_rpc *rpc) {
    rpc->served++;
}

void wire_listen(bool listens) {
    struct wires *wires = process_now()->wires;
    if (listens) net.listening[wires->process->rank] = wires;
    if (!listens && net.listening[wires->process->rank] == wires) net.listening[wires->process->rank] = NULL;
}

/* ---- cluster/rpc/rpc_stream.h ------------------------------------------------------------------------------------------ */

ls_status ls_rpc_stream_open(struct ls_rpc *rpc, int fd, const char *target, struct ls_rpc_stream **stream) {
    struct process *to = descriptor_of(fd)->remote, *from = process_now();
    struct wire *wire = calloc(1, sizeof(*wire));
    (void)rpc, (void)target;
    must(wire);
    wire->ends[0] = (struct ls_rpc_stream){.wire = wire, .process = from, .deadline = LS_NEVER};
    wire->ends[1] = (struct ls_rpc_stream){.wire = wire, .process = to, .incoming = true, .deadline = LS_NEVER};
    (void)snprintf(wire->ends[1].caller.address, sizeof(wire->ends[1].caller.address), "host-%d:%d", from->host,
                   from->rank);
    wire->ends[1].caller.fd = -1;
    add_end(&wire->ends[0]);
    if (!to->alive) end_later(&wire->ends[0], clock_now() + LEAST_DELAY);
    (void)__wrap_close(fd);
    *stream = &wire->ends[0];
    return LS_OK;
}

/* The field of the envelope's body: after the incarnation, 8 bytes, and the generation, a varint. */
static unsigned kind_of(const uint8_t *data, size_t size) {
    size_t at = 0;
    if (at < size && data[at] == 0x09) at += 9;
    if (at < size && data[at] == 0x10)
        for (at++; at < size && data[at++] & 0x80;) continue;
    if (at + 1 >= size) return 0;
    unsigned tag = data[at] & 0x80 ? (unsigned)(data[at] & 0x7F) | (unsigned)data[at + 1] << 7 : data[at];
    return tag >> 3 < WIRE_KINDS ? tag >> 3 : 0;
}

static struct payload *payload_of(const void *data, size_t size) {
    if (!net.last || net.last->size != size || memcmp(net.last->data, data, size) != 0) {
        release_payload(net.last);
        net.last = malloc(sizeof(*net.last) + size);
        must(net.last);
        net.last->references = 1;
        net.last->size = size;
        memcpy(net.last->data, data, size);
    }
    net.last->references++;
    return net.last;
}

ls_status ls_rpc_stream_send(struct ls_rpc_stream *stream, const void *data, size_t size) {
    struct wire_traffic *traffic = stream->process->wires->traffic;
    traffic->sent[kind_of(data, size)]++;
    traffic->bytes += size;
    post(stream, LETTER_MESSAGE, payload_of(data, size), false);
    stream->process->wires->rpc->served++; /* the end of a sending is an event of the queue */
    return LS_OK;
}

bool ls_rpc_stream_is_idle(const struct ls_rpc_stream *stream) {
    return clock_now() >= stream->departed;
}

double ls_rpc_stream_unanswered(const struct ls_rpc_stream *stream) {
    if (!stream || stream->incoming || !stream->open) return -1;
    int64_t since = cut_since(stream->process, other_end(stream)->process, clock_now());
    return since ? (double)(clock_now() - since) / (double)LS_SECOND : 0;
}

static void expire_stream(void *context, uint64_t number) {
    struct wire *wire = context;
    struct ls_rpc_stream *end = &wire->ends[1];
    (void)number;
    if (end->open && end->process->alive && end->deadline <= clock_now()) {
        struct process *before = process_enter(end->process);
        post(end, LETTER_END, NULL, false);
        close_end(end);
        (void)process_enter(before);
    }
    release_wire(wire);
}

void ls_rpc_stream_finish(struct ls_rpc_stream *stream) {
    stream->finishing = true;
    if (!stream->incoming) {
        post(stream, LETTER_FINISH, NULL, false);
        return;
    }
    stream->deadline = clock_now() + LS_REFUSED_TIMEOUT;
    stream->wire->references++;
    clock_at(stream->deadline, expire_stream, stream->wire, 0);
}

void ls_rpc_stream_drop(struct ls_rpc_stream *stream) {
    if (!stream->open) return;
    stream->quiet = true;
    stream->loses = clock_random() % 2;
    post(stream, LETTER_END, NULL, false);
    ls_free(ls_steal(stream->attachment));
    remove_end(stream);
}

int ls_rpc_streams_finishing(const struct ls_rpc *rpc) {
    int count = 0;
    (void)rpc;
    for (const struct ls_rpc_stream *end = process_now()->wires->streams; end; end = end->next) count += end->finishing;
    return count;
}

bool ls_rpc_stream_closed_by_kernel(const struct ls_rpc_stream *stream) {
    return !stream->incoming && stream->by_kernel;
}

void ls_rpc_stream_reason(const struct ls_rpc_stream *stream, char *text, size_t size) {
    (void)snprintf(text, size, "%s", stream->by_kernel ? "Socket closed" : "the call was cancelled");
}

void ls_rpc_stream_set_user(struct ls_rpc_stream *stream, void *user) {
    stream->user = user;
}

void *ls_rpc_stream_user(const struct ls_rpc_stream *stream) {
    return stream->user;
}

void ls_rpc_stream_attach(struct ls_rpc_stream *stream, void *memory) {
    ls_free(stream->attachment);
    stream->attachment = memory;
}

void *ls_rpc_stream_attachment(const struct ls_rpc_stream *stream) {
    return stream->attachment;
}

const struct ls_rpc_caller *ls_rpc_stream_caller(const struct ls_rpc_stream *stream) {
    return &stream->caller;
}

bool ls_rpc_stream_incoming(const struct ls_rpc_stream *stream) {
    return stream->incoming;
}
