/* Rosters, ledgers and quorums. */
#include "cluster/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

void ls_quorum_release(struct ls_ledger *ledger) {
    ls_free(ledger->numbers);
    ls_free(ledger->incarnations);
    *ledger = (struct ls_ledger){.size = ledger->size, .voters = ledger->voters};
}

static uint64_t *roster_at(const struct ls_ledger *ledger, int index) {
    return ledger->incarnations + (size_t)index * (size_t)ledger->size;
}

static size_t roster_bytes(const struct ls_ledger *ledger) {
    return (size_t)ledger->size * sizeof(uint64_t);
}

static int convener_of(const struct ls_ledger *ledger, uint64_t number) {
    return (int)(number % (uint64_t)ledger->size);
}

static bool grow_ledger(struct ls_ledger *ledger) {
    if (ledger->count < ledger->room) return true;
    const struct ls_growth number = {sizeof(*ledger->numbers), 1, LS_LEDGER_MOST, "numbers of configurations"};
    const struct ls_growth roster = {roster_bytes(ledger), 1, LS_LEDGER_MOST, "rosters"};
    size_t count = (size_t)ledger->count, numbers = count, rosters = count;
    if (ls_grow(&ledger->numbers, &numbers, count + 1, &number)) return false;
    if (ls_grow(&ledger->incarnations, &rosters, count + 1, &roster)) return false;
    ledger->room = (int)rosters;
    return true;
}

bool ls_quorum_add(struct ls_ledger *ledger, uint64_t number, const uint64_t *roster) {
    for (int i = 0; i < ledger->count; i++) {
        bool same = convener_of(ledger, ledger->numbers[i]) == convener_of(ledger, number);
        if (!same || memcmp(roster_at(ledger, i), roster, roster_bytes(ledger)) != 0) continue;
        if (ledger->numbers[i] < number) ledger->numbers[i] = number;
        return true;
    }
    if (!grow_ledger(ledger)) return false;
    memcpy(roster_at(ledger, ledger->count), roster, roster_bytes(ledger));
    ledger->numbers[ledger->count++] = number;
    return true;
}

bool ls_quorum_add_all(struct ls_ledger *ledger, const struct ls_rosters *rosters) {
    bool added = rosters->words == rosters->count * ledger->size;
    for (int i = 0; i < rosters->count && added; i++)
        added = ls_quorum_add(ledger, rosters->numbers[i], rosters->incarnations + (size_t)i * (size_t)ledger->size);
    return added;
}

struct ls_rosters ls_quorum_rosters(const struct ls_ledger *ledger) {
    return (struct ls_rosters){ledger->numbers, ledger->incarnations, ledger->count, ledger->count * ledger->size};
}

static void remove_at(struct ls_ledger *ledger, int index) {
    size_t after = (size_t)(--ledger->count - index);
    memmove(ledger->numbers + index, ledger->numbers + index + 1, after * sizeof(*ledger->numbers));
    memmove(roster_at(ledger, index), roster_at(ledger, index + 1), after * roster_bytes(ledger));
}

void ls_quorum_forget(struct ls_ledger *ledger, uint64_t newest) {
    for (int i = ledger->count - 1; i >= 0; i--)
        if (ledger->numbers[i] < newest) remove_at(ledger, i);
}

void ls_quorum_drop_own(struct ls_ledger *ledger, int rank, uint64_t incarnation, uint64_t entered) {
    for (int i = ledger->count - 1; i >= 0; i--) {
        bool own = convener_of(ledger, ledger->numbers[i]) == rank && roster_at(ledger, i)[rank] == incarnation;
        if (own && ledger->numbers[i] > entered) remove_at(ledger, i);
    }
}

const uint64_t *ls_quorum_find(const struct ls_ledger *ledger, uint64_t number) {
    for (int i = 0; i < ledger->count; i++)
        if (ledger->numbers[i] == number) return roster_at(ledger, i);
    return NULL;
}

bool ls_quorum(const uint64_t *roster, const uint64_t *present, int size) {
    int all = 0, here = 0;
    bool lowest = false;
    for (int rank = 0; rank < size; rank++) {
        if (!roster[rank]) continue;
        bool is_here = roster[rank] == present[rank];
        if (!all++) lowest = is_here;
        here += is_here;
    }
    return 2 * here > all || (2 * here == all && lowest);
}

bool ls_quorum_inherited(const uint64_t *roster, const uint64_t *present, const struct ls_closed *closed, int size) {
    for (int rank = 0; rank < size; rank++) {
        if (!present[rank]) return false;
        if (roster[rank] && roster[rank] != present[rank] && !ls_closed_has(closed, roster[rank])) return false;
    }
    return true;
}

bool ls_quorum_permits(const struct ls_ledger *ledger, const uint64_t *present, const struct ls_closed *closed,
                       const uint64_t **missing) {
    int voters = ledger->voters ? ledger->voters : ledger->size;
    for (int i = 0; i < ledger->count; i++) {
        const uint64_t *roster = roster_at(ledger, i);
        if (ls_quorum(roster, present, voters) || ls_quorum_inherited(roster, present, closed, voters)) continue;
        if (missing) *missing = roster;
        return false;
    }
    if (missing) *missing = NULL;
    return true;
}

static ls_status refuse_range(const char *text, int tasks) {
    return ls_fail(
        LS_INVALID_ARGUMENT,
        "elastic '%s' is not MIN:MAX or MIN workers, such as 2:%d or 2:%d,scaled, with MIN from 1 to %d and MAX "
        "the %d chief and worker tasks of TF_CONFIG (LOCKSTEP_ELASTIC, or elastic of ls_strategy_options)",
        text, tasks, tasks, tasks, tasks);
}

/* The number at *text, which it passes. */
static long read_workers(const char **text) {
    char *end;
    if (**text < '0' || **text > '9') return -1;
    long count = strtol(*text, &end, 10);
    *text = end;
    return count;
}

ls_status ls_quorum_parse_elastic(const char *text, int tasks, struct ls_elastic *elastic) {
    const char *at = text;
    *elastic = (struct ls_elastic){0};
    if (!*text) return LS_OK;
    long least = read_workers(&at), most = tasks;
    if (*at == ':') {
        at++;
        most = read_workers(&at);
    }
    bool scaled = strcmp(at, ",scaled") == 0;
    if ((*at && !scaled) || least < 1 || least > tasks || most != tasks) return refuse_range(text, tasks);
    *elastic = (struct ls_elastic){(int)least, scaled};
    return LS_OK;
}
