/* Sessions as words of 8 bytes, heads as little-endian bytes; and the rule of what is stale. */
#include "store/session/session.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#include "base/float_bits.h"
#include "base/status.h"

#define MOST_TICKETS (INT64_C(1) << 40)
enum { HEAD_VERSION = 1 };

/* ---- terms ---- */

bool ls_session_is(const struct ls_session *one, const struct ls_session *other) {
    return one->begin == other->begin && one->tickets == other->tickets && one->statistics == other->statistics &&
           one->numbers == other->numbers;
}

void ls_session_encode(const struct ls_session *session, int64_t words[LS_SESSION_WORDS]) {
    const int64_t own[8] = {session->model,    session->begin,         session->tickets,    session->staleness,
                            session->on_stale, session->max_staleness, session->statistics, session->numbers};
    struct ls_terms_step step = {session->step, session->model, false};
    step.step.iteration = session->begin + 1;
    step.step.skipped = 0;
    memcpy(words, own, sizeof(own));
    ls_terms_step_encode(&step, words + 8);
}

ls_status ls_session_decode(const int64_t words[LS_SESSION_WORDS], struct ls_session *session) {
    struct ls_terms_step step;
    ls_status status = ls_terms_step_decode(words + 8, &step);
    if (status) return status;
    if (words[0] < 0 || words[1] < 0 || words[1] > INT64_MAX / 2 || words[2] < 1 || words[2] > MOST_TICKETS ||
        words[3] < -1 || words[4] < LS_STALE_APPLY || words[4] > LS_STALE_DROP || words[5] < 0 || words[6] < 0 ||
        words[6] > MOST_TICKETS || words[7] < 0 || words[7] > LS_SESSION_NUMBERS)
        return ls_fail(
            LS_DATA_LOSS,
            "rank 0 tells of a session of model %lld that cannot be: %lld tickets after step %lld, staleness "
            "%lld, %lld",
            (long long)words[0], (long long)words[2], (long long)words[1], (long long)words[3], (long long)words[5]);
    *session = (struct ls_session){.model = words[0],
                                   .begin = words[1],
                                   .tickets = words[2],
                                   .staleness = words[3],
                                   .on_stale = (ls_on_stale)words[4],
                                   .max_staleness = words[5],
                                   .statistics = words[6],
                                   .numbers = words[7],
                                   .step = step.step};
    return LS_OK;
}

/* ---- staleness ---- */

static int class_of(int64_t staleness) {
    int class = 0;
    while (staleness > 0 && class < LS_STALENESS_CLASSES - 1) {
        staleness /= 2;
        class ++;
    }
    return class;
}

void ls_session_totals_add(struct ls_session_totals *totals, int64_t staleness, bool applied, const double *numbers,
                           int64_t count) {
    totals->applied += applied;
    totals->dropped += !applied;
    totals->staleness += staleness;
    totals->classes[class_of(staleness)]++;
    if (staleness > totals->oldest) totals->oldest = staleness;
    for (int64_t i = 0; i < count; i++) totals->numbers[i] += numbers[i];
}

/* Zhang et al. 2015 (arXiv 1511.05950) divide the rate by the staleness. */
float ls_session_factor(const struct ls_session *session, int64_t staleness) {
    if (session->on_stale == LS_STALE_DROP) return staleness <= session->max_staleness ? 1.0F : 0.0F;
    if (session->on_stale == LS_STALE_SCALE && staleness > 1) return 1.0F / (float)staleness;
    return 1.0F;
}

/* ---- heads ---- */

/* Of 8 bytes each. */
enum { AT_VERSION, AT_KIND, AT_WORKER, AT_BEGIN, AT_TICKET, AT_STEP, AT_VALUE, AT_FLAG };

static void put(unsigned char *bytes, int at, int64_t value) {
    uint64_t word = htole64((uint64_t)value);
    memcpy(bytes + (size_t)at * sizeof(word), &word, sizeof(word));
}

static int64_t take(const unsigned char *bytes, int at) {
    uint64_t word;
    memcpy(&word, bytes + (size_t)at * sizeof(word), sizeof(word));
    return (int64_t)le64toh(word);
}

ls_status ls_session_failure(const struct ls_letter *letter) {
    const unsigned char *body = letter->bytes + LS_POST_HEAD;
    size_t size = letter->size - LS_POST_HEAD;
    bool known = size > 1 && *body > LS_OK && *body <= LS_UNAUTHENTICATED;
    int length = known && size - 1 < 1000 ? (int)(size - 1) : 0;
    if (!length) return ls_fail(LS_DATA_LOSS, "rank %d has failed, and does not say why", letter->from);
    return ls_fail((ls_status)*body, "rank %d: %.*s", letter->from, length, (const char *)body + 1);
}

void ls_session_head_encode(const struct ls_session_head *head, unsigned char bytes[LS_POST_HEAD]) {
    put(bytes, AT_VERSION, HEAD_VERSION);
    put(bytes, AT_KIND, head->kind);
    put(bytes, AT_WORKER, head->worker);
    put(bytes, AT_BEGIN, head->begin);
    put(bytes, AT_TICKET, head->ticket);
    put(bytes, AT_STEP, head->version);
    put(bytes, AT_VALUE, (int64_t)ls_float_bits_of(head->value));
    put(bytes, AT_FLAG, head->flag);
}

ls_status ls_session_head_decode(const unsigned char bytes[LS_POST_HEAD], const struct ls_session *session, int workers,
                                 struct ls_session_head *head) {
    int64_t kind = take(bytes, AT_KIND), worker = take(bytes, AT_WORKER), ticket = take(bytes, AT_TICKET);
    int64_t version = take(bytes, AT_STEP), flag = take(bytes, AT_FLAG), value = take(bytes, AT_VALUE);
    uint32_t bits = (uint32_t)value;
    float number = ls_float_bits_value(bits);
    bool known = take(bytes, AT_VERSION) == HEAD_VERSION && kind >= LS_SESSION_ASK && kind <= LS_SESSION_FAILED;
    bool fits = worker >= 0 && worker < workers && ticket >= -1 && ticket <= session->tickets &&
                version >= session->begin && version <= session->begin + session->tickets;
    if (!known || !fits || flag < 0 || flag > 1 || value != (int64_t)bits || !isfinite(number) || number < 0)
        return ls_fail(LS_DATA_LOSS, "what came is no letter of this training: kind %lld, ticket %lld, version %lld",
                       (long long)kind, (long long)ticket, (long long)version);
    if (take(bytes, AT_BEGIN) != session->begin)
        return ls_fail(LS_DATA_LOSS, "a letter of the session after step %lld came in that after step %lld",
                       (long long)take(bytes, AT_BEGIN), (long long)session->begin);
    *head = (struct ls_session_head){(int32_t)kind, (int32_t)worker, session->begin, ticket, version, number, flag};
    return LS_OK;
}
