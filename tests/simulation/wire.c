/* The network behind cluster/rpc and cluster/net/dial.c. A control stream has two ends; what one says travels as
 * letters. A process reads its letters one after the other, each for a moment, so that one who hears from all is as
 * busy as it would be. */
#include "simulation/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cluster/rpc/rpc_private.h"
#include "simulation/clock_world.h"
#include "simulation/process.h"
#include "simulation/wire_private.h"

#define LINK_RATE     INT64_C(1250000000)  /* bytes a second out of a process: 10 Gbit/s */
#define READING       (5 * LS_MICROSECOND) /* of a message, ... */
#define READING_RATE  INT64_C(1000000000)  /* ... and of its bytes a second */
#define RETRANSMIT    (200 * LS_MILLISECOND)
#define USER_TIMEOUT  (30 * LS_SECOND) /* until a kernel gives up a connection that nobody answers */
#define SMALLEST_SIZE 64

struct wire_net wire_net;

void wire_must(const void *memory) {
    if (memory) return;
    (void)fprintf(stderr, "simulation: no memory\n");
    abort();
}

/* ---- Cuts ----------------------------------------------------------------------------------------------------------
 */

int64_t wire_cut_since(const struct process *a, const struct process *b, int64_t now) {
    int64_t dead = a->wires->dead_since ? a->wires->dead_since : b->wires->dead_since;
    if (dead) return dead;
    bool apart = wire_net.sides && wire_net.sides[a->rank] != wire_net.sides[b->rank];
    return apart && now >= wire_net.cut_from && now < wire_net.cut_until ? wire_net.cut_from : 0;
}

/* The time at which what would arrive then does arrive. */
static int64_t after_cut(const struct process *a, const struct process *b, int64_t arrives) {
    if (a->wires->dead_since || b->wires->dead_since) return LS_NEVER;
    if (!wire_cut_since(a, b, arrives) || wire_net.cut_until == LS_NEVER)
        return wire_cut_since(a, b, arrives) ? LS_NEVER : arrives;
    return wire_net.cut_until + clock_between(0, RETRANSMIT);
}

/* ---- Letters --------------------------------------------------------------------------------------------------------
 */

void wire_release(struct wire *wire) {
    if (!--wire->references) free(wire);
}

void wire_release_payload(struct wire_payload *payload) {
    if (payload && !--payload->references) free(payload);
}

static void free_letter(struct wire_letter *letter) {
    wire_release_payload(letter->payload);
    wire_release(letter->wire);
    free(letter);
}

struct ls_rpc_stream *wire_other_end(const struct ls_rpc_stream *end) {
    return &end->wire->ends[!end->incoming];
}

void wire_add_end(struct ls_rpc_stream *end) {
    struct wires *wires = end->process->wires;
    end->open = true;
    end->next = wires->streams;
    if (end->next) end->next->back = &end->next;
    end->back = &wires->streams;
    wires->streams = end;
    end->wire->references++;
    wires->rpc->incoming_streams += end->incoming;
    struct wire_traffic *traffic = wires->traffic;
    if (++traffic->streams > traffic->most_streams) traffic->most_streams = traffic->streams;
}

void wire_remove_end(struct ls_rpc_stream *end) {
    struct wires *wires = end->process->wires;
    end->open = false;
    *end->back = end->next;
    if (end->next) end->next->back = end->back;
    if (wires->rpc) wires->rpc->incoming_streams -= end->incoming;
    wires->traffic->streams--;
    wire_release(end->wire);
}

void wire_close_end(struct ls_rpc_stream *end) {
    const struct ls_rpc_config *config = &end->process->wires->rpc->config;
    if (!end->open) return;
    end->open = false; /* before the callback looks */
    if (!end->quiet) config->closed(config->context, end);
    end->quiet = true;
    ls_free(ls_steal(end->attachment));
    wire_remove_end(end);
}

static void arrive(void *context, uint64_t number);

void wire_post(struct ls_rpc_stream *from, enum wire_letter_kind kind, struct wire_payload *payload, bool by_kernel) {
    struct ls_rpc_stream *to = wire_other_end(from);
    struct wires *wires = from->process->wires;
    struct wire_letter *letter = calloc(1, sizeof(*letter));
    wire_must(letter);
    *letter =
        (struct wire_letter){.wire = from->wire, .to = to, .kind = kind, .by_kernel = by_kernel, .payload = payload};
    from->wire->references++;
    int64_t size = payload ? (int64_t)payload->size : SMALLEST_SIZE;
    int64_t begins = wires->sends_until > clock_now() ? wires->sends_until : clock_now();
    from->departed = wires->sends_until = begins + size * LS_SECOND / LINK_RATE;
    int64_t arrives =
        from->departed + clock_between(WIRE_LEAST_DELAY, WIRE_MOST_DELAY) + from->process->slow + to->process->slow;
    if (arrives <= from->arrives) arrives = from->arrives + 1;
    arrives = after_cut(from->process, to->process, arrives);
    if (arrives == LS_NEVER)
        free_letter(letter);
    else
        clock_at(from->arrives = arrives, arrive, letter, 0);
}

static int64_t reading_time(const struct wire_letter *letter) {
    return READING + (letter->payload ? (int64_t)letter->payload->size * LS_SECOND / READING_RATE : 0);
}

static void refuse_stream(struct ls_rpc_stream *end) {
    wire_post(end, LETTER_END, NULL, false);
}

/* A stream appears with its first message. */
static bool appears(struct ls_rpc_stream *end) {
    const struct ls_rpc *rpc = end->process->wires->rpc;
    if (end->open || end->quiet || !end->incoming) return end->open;
    if (rpc->stopping || rpc->incoming_streams >= rpc->config.streams_most) {
        end->quiet = true;
        refuse_stream(end);
        return false;
    }
    wire_add_end(end);
    return true;
}

static void read_letter(struct wires *wires, const struct wire_letter *letter) {
    struct ls_rpc_stream *end = letter->to;
    const struct ls_rpc_config *config = &wires->rpc->config;
    bool lost = wire_other_end(end)->loses;
    if (letter->kind == LETTER_MESSAGE && !lost && appears(end) && !end->quiet) {
        wires->traffic->received++;
        wires->traffic->bytes += letter->payload->size;
        config->message(config->context, end, letter->payload->data, letter->payload->size);
    }
    if (letter->kind == LETTER_MESSAGE || !end->open) return;
    end->by_kernel = letter->by_kernel;
    if (letter->kind == LETTER_FINISH) wire_post(end, LETTER_END, NULL, false);
    wire_close_end(end);
}

/* A connection that nobody has read from yet ends too. */
static void reset_stranger(const struct wire_letter *letter) {
    struct ls_rpc_stream *end = letter->to;
    if (letter->kind != LETTER_MESSAGE || !end->incoming || end->open || end->quiet) return;
    end->quiet = true;
    wire_post(end, LETTER_END, NULL, true);
}

static struct wire_letter *take_letter(struct wires *wires) {
    struct wire_letter *letter = wires->first;
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
    struct wire_letter *letter = take_letter(wires);
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

static void put_letter(struct wires *wires, struct wire_letter *letter) {
    *wires->last = letter;
    wires->last = &letter->next;
    if (wires->reading) return;
    wires->reading = true;
    clock_at(clock_now() + reading_time(letter), serve, wires, 0);
}

static void arrive(void *context, uint64_t number) {
    struct wire_letter *letter = context;
    (void)number;
    if (letter->to->process->alive && letter->to->process->wires->rpc) {
        put_letter(letter->to->process->wires, letter);
        return;
    }
    reset_stranger(letter);
    free_letter(letter);
}

/* ---- Processes ---- */

void wire_begin(int tasks) {
    memset(&wire_net, 0, sizeof(wire_net));
    wire_net.tasks = tasks;
    wire_net.listening = calloc((size_t)tasks, sizeof(struct wires *));
    wire_must(wire_net.listening);
}

void wire_end(void) {
    wire_release_payload(wire_net.last);
    free(wire_net.listening);
}

void wire_add(struct process *process, struct wire_traffic *traffic) {
    struct wires *wires = calloc(1, sizeof(*wires));
    wire_must(wires);
    *wires = (struct wires){.process = process, .next = wire_net.all, .traffic = traffic, .last = &wires->first};
    process->wires = wire_net.all = wires;
}

void wire_free(struct process *process) {
    struct wires *wires = process->wires;
    for (struct wires **at = &wire_net.all; *at; at = &(*at)->next)
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
    if (wire_net.listening[process->rank] == wires) wire_net.listening[process->rank] = NULL;
    while (wires->streams) {
        struct ls_rpc_stream *end = wires->streams;
        if (tells && !end->quiet) wire_post(end, LETTER_END, NULL, true);
        end->quiet = true;
        end->attachment = NULL; /* its memory ends with the process */
        wire_remove_end(end);
    }
    for (struct wire_letter *letter = take_letter(wires); letter; letter = take_letter(wires)) {
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
    struct wire_letter *letter = context;
    arrive(letter, number);
}

void wire_end_later(struct ls_rpc_stream *end, int64_t at) {
    struct wire_letter *letter = calloc(1, sizeof(*letter));
    wire_must(letter);
    *letter = (struct wire_letter){.wire = end->wire, .to = end, .kind = LETTER_END};
    end->wire->references++;
    clock_at(at, time_out, letter, 0);
}

void wire_crash(struct process *process) {
    struct wires *wires = process->wires;
    wires->dead_since = clock_now();
    for (struct ls_rpc_stream *end = wires->streams; end; end = end->next)
        wire_end_later(wire_other_end(end), clock_now() + USER_TIMEOUT);
    end_all(process, false);
}

static void end_cut_streams(void *context, uint64_t number) {
    (void)context, (void)number;
    for (struct wires *wires = wire_net.all; wires; wires = wires->next)
        for (struct ls_rpc_stream *end = wires->streams; end; end = end->next)
            if (wire_cut_since(end->process, wire_other_end(end)->process, clock_now()))
                wire_end_later(end, clock_now());
}

void wire_cut(const uint8_t *sides, int64_t until) {
    wire_net.sides = sides;
    wire_net.cut_from = clock_now();
    wire_net.cut_until = until;
    if (until > clock_now() + USER_TIMEOUT) clock_at(clock_now() + USER_TIMEOUT, end_cut_streams, NULL, 0);
}
