/* Bytes as they come from the network: a control message, a data connection's preface, and texts to compare. Every
 * message that the decoder lets through must survive being encoded again. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cluster/net/http2_frames.h"
#include "base/difference.h"
#include "cluster/message.h"
#include "cluster/net/preface.h"
#include "cluster/rendezvous/meet.h"
#include "fuzz/fuzz.h"

static void read_texts(const struct ls_message *message) {
    struct ls_difference difference;
    if (message->kind != LS_MESSAGE_HELLO) return;
    (void)ls_line_difference_find("cluster.chief=0\ncluster.worker=2\n", message->hello.cluster, &difference);
    (void)ls_line_difference_find(message->hello.cluster, message->hello.host, &difference);
}

static void read_message(const uint8_t *data, size_t size) {
    struct ls_message message, again;
    void *encoded;
    size_t encoded_size;
    if (ls_message_decode(data, size, &message) != LS_OK) return;
    read_texts(&message);
    if (ls_message_encode(&message, &encoded, &encoded_size) != LS_OK) abort();
    if (ls_message_decode(encoded, encoded_size, &again) != LS_OK || again.kind != message.kind) abort();
    ls_message_decode_release(&again);
    ls_free(encoded);
    ls_message_decode_release(&message);
}

static void read_preface(const uint8_t *data, size_t size) {
    struct ls_preface preface;
    uint8_t encoded[LS_PREFACE_SIZE];
    enum ls_first_bytes first = ls_preface_first_bytes(data, size);
    if (first == LS_FIRST_DATA && size < LS_PREFACE_SIZE) abort();
    if (size < LS_PREFACE_SIZE || ls_preface_decode(data, &preface) != LS_OK) return;
    ls_preface_encode(&preface, encoded);
    if (memcmp(encoded, data, LS_PREFACE_SIZE) != 0) abort();
}

/* A rendezvous: an ask, and an answer with its roster. */
static void read_rendezvous(const uint8_t *data, size_t size) {
    struct ls_meet_ask ask;
    struct ls_meet_answer answer;
    uint8_t encoded[LS_MEET_HEADER];
    struct ls_cluster_view spec = {0};
    if (size >= LS_MEET_SIZE && ls_meet_decode_ask(data, &ask) == LS_OK) {
        ls_meet_encode_ask(&ask, encoded);
        if (memcmp(encoded, data, LS_MEET_SIZE) != 0) abort();
    }
    if (size < LS_MEET_HEADER || ls_meet_decode_answer(data, &answer) != LS_OK) return;
    ls_meet_encode_answer(&answer, encoded);
    if (memcmp(encoded, data, LS_MEET_HEADER) != 0) abort();
    if (ls_cluster_view_make_workers(&spec, 2) == LS_OK &&
        ls_meet_read_roster(&spec, (const char *)data + LS_MEET_HEADER, size - LS_MEET_HEADER) == LS_OK)
        for (int i = 0; i < 2; i++)
            if (spec.tasks[i].port < 1 || spec.tasks[i].port > 65535 || !*spec.tasks[i].host) abort();
    for (int i = 0; i < spec.task_count; i++) {
        ls_free(spec.tasks[i].host);
        ls_free(spec.tasks[i].address);
    }
    ls_free(spec.tasks);
}

/* As HTTP/2, at once and byte by byte: the same passes. */
static void read_frames(const uint8_t *data, size_t size) {
    struct ls_http2_frames whole = {.most = 1000}, parts = whole;
    bool passes = !ls_http2_frames_look(&whole, data, size), each = true;
    for (size_t i = 0; i < size && each; i++) each = !ls_http2_frames_look(&parts, data + i, 1);
    if (passes != each) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_message(data, size);
    read_preface(data, size);
    read_rendezvous(data, size);
    read_frames(data, size);
    return 0;
}
