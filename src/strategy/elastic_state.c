/* A custom loop's state as of the last commit: variables, iterators' positions and the user's registrations (Horovod's
 * elastic State). A failed step leaves them half changed; restore brings the last commit back. Each has a name, which
 * is the same in every process. Values are found by name, in any order of making. */
#include "strategy/elastic_state.h"

#include <stdio.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/point.h"
#include "base/text.h"
#include "runtime/state_transfer.h"
#include "strategy/strategy.h"
#include "strategy/variable.h"

/* Sorts by name, as variables are, so that a description gives the places of the values. */
struct ls_registered {
    struct ls_registered *next;
    char *name, *lines; /* lines is NULL without a description */
    void *data;         /* borrowed */
    size_t size;
    bool begins; /* a commit without it means its beginning: zeros */
};

/* The head of a state. The description follows, then the variables, then an entry, a name and a value for each
 * registration. */
struct heading {
    int64_t lines; /* bytes of the description, with its zero, in whole words */
    int64_t values;
};
struct entry {
    int64_t name, value; /* bytes, the name's with its zero; both lie in whole words */
};

/* ---- registering ---- */

static void registered_free(struct ls_registered *registered) {
    ls_free(registered->name);
    ls_free(registered->lines);
    ls_free(registered);
}

ls_status ls_elastic_state_add(ls_strategy *strategy, const struct ls_registration *registration) {
    struct ls_registered **at = &strategy->committed.registered;
    const char *name = registration->name, *lines = registration->lines;
    LS_NEW(struct ls_registered, made, "a registration");
    while (*at && strcmp((*at)->name, name) < 0) at = &(*at)->next;
    *made = (struct ls_registered){*at,
                                   ls_strdup(name),
                                   lines ? ls_strdup(lines) : NULL,
                                   registration->data,
                                   registration->size,
                                   registration->begins};
    if (!made->name || (lines && !made->lines)) {
        registered_free(made);
        return ls_fail_memory("a registration", strlen(name));
    }
    *at = made;
    strategy->committed.changed = true;
    return LS_OK;
}

static bool is_registered(const ls_strategy *strategy, const char *name) {
    const struct ls_registered *r = strategy->committed.registered;
    while (r && strcmp(r->name, name) != 0) r = r->next;
    return r;
}

void ls_elastic_state_name(const ls_strategy *strategy, const char *kind, char name[LS_REGISTERED_NAME]) {
    int number = 0;
    do (void)snprintf(name, LS_REGISTERED_NAME, "%s %d", kind, ++number);
    while (is_registered(strategy, name));
}

void ls_elastic_state_remove(ls_strategy *strategy, const void *data) {
    for (struct ls_registered **at = &strategy->committed.registered; *at; at = &(*at)->next) {
        struct ls_registered *found = *at;
        if (found->data != data) continue;
        *at = found->next;
        registered_free(found);
        strategy->committed.changed = true;
        return;
    }
}

ls_status ls_strategy_register(ls_strategy *strategy, const char *name, void *data, size_t size) {
    LS_NEED(strategy);
    if (!name || !*name || strpbrk(name, "\n=") || !data || !size)
        return ls_fail(LS_INVALID_ARGUMENT, "registered state needs a name, without '=' and line breaks, and memory");
    if (size > PTRDIFF_MAX)
        return ls_fail(LS_INVALID_ARGUMENT, "'%s': size %zu is more than memory can hold", name, size);
    if (is_registered(strategy, name)) return ls_fail(LS_ALREADY_EXISTS, "'%s' is registered already", name);
    return ls_elastic_state_add(strategy, &(struct ls_registration){.name = name, .data = data, .size = size});
}

/* ---- to bytes ---- */

static size_t name_size(const struct ls_registered *registered) {
    return ls_state_transfer_round(strlen(registered->name) + 1);
}

static size_t values_size(const ls_strategy *strategy) {
    size_t size = ls_variables_size(strategy, false);
    for (const struct ls_registered *r = strategy->committed.registered; r; r = r->next)
        size += sizeof(struct entry) + name_size(r) + ls_state_transfer_round(r->size);
    return size;
}

/* Writes each line behind its subject's name, so that no two lines of a description have one name. */
static void describe_registered(FILE *out, const struct ls_registered *registered) {
    (void)fprintf(out, "registered %s=%zu bytes\n", registered->name, registered->size);
    for (const char *line = registered->lines; line && *line;) {
        size_t length = strcspn(line, "\n");
        (void)fprintf(out, "%s %.*s\n", registered->name, (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* Describes the subjects of a state, which must be equal on all workers. */
static ls_status describe_state(const ls_strategy *strategy, char **lines) {
    struct ls_text text;
    FILE *out = ls_text_open(&text, 1);
    if (out) ls_variables_describe(strategy, false, out);
    for (const struct ls_registered *r = strategy->committed.registered; out && r; r = r->next)
        describe_registered(out, r);
    return ls_text_close(&text, LS_OK, "a state's description", lines);
}

bool ls_elastic_state_has(const ls_strategy *strategy, const void *data) {
    const struct ls_registered *r = strategy->committed.registered;
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    struct ls_text text;
    while (r && r->data != data) r = r->next;
    if (!r || !strategy->committed.bytes) return false;
    FILE *out = ls_text_open(&text, 1);
    if (out) describe_registered(out, r);
    return !ls_text_close(&text, LS_OK, "a registration", &lines) &&
           strstr(strategy->committed.bytes + sizeof(struct heading), lines);
}

static char *values_of(const struct ls_elastic_state *committed) {
    struct heading heading;
    memcpy(&heading, committed->bytes, sizeof(heading));
    return committed->bytes + sizeof(heading) + heading.lines;
}

/* Allocates room for the present state. The room is allocated before anything is overwritten. A commit that finds no
 * memory leaves the last one whole; one that fits copies only. */
static ls_status prepare_state(ls_strategy *strategy) {
    struct ls_elastic_state *committed = &strategy->committed;
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    ls_status status = describe_state(strategy, &lines);
    if (status) return status;
    struct heading heading = {(int64_t)ls_state_transfer_round(strlen(lines) + 1), (int64_t)values_size(strategy)};
    size_t size = sizeof(heading) + (size_t)heading.lines + (size_t)heading.values;
    char *bytes = ls_alloc_aligned(size);
    if (!bytes) return ls_fail_memory("a commit", size);
    memcpy(bytes, &heading, sizeof(heading));
    memcpy(bytes + sizeof(heading), lines, strlen(lines) + 1);
    ls_free(committed->bytes);
    committed->bytes = bytes;
    committed->size = size;
    committed->variables = ls_variables_size(strategy, false);
    committed->changed = false;
    return LS_OK;
}

static void save(const ls_strategy *strategy) {
    char *place = values_of(&strategy->committed);
    ls_variables_pack(strategy, false, place);
    place += strategy->committed.variables;
    for (const struct ls_registered *r = strategy->committed.registered; r; r = r->next) {
        struct entry entry = {(int64_t)strlen(r->name) + 1, (int64_t)r->size};
        memcpy(place, &entry, sizeof(entry));
        memcpy(place + sizeof(entry), r->name, strlen(r->name) + 1);
        place += sizeof(entry) + name_size(r);
        memcpy(place, r->data, r->size);
        place += ls_state_transfer_round(r->size);
    }
}

/* ---- back ---- */

/* The place of the entry in the last commit if it has that many bytes, otherwise NULL. */
static const char *find_value(const struct ls_elastic_state *committed, const struct ls_registered *registered) {
    const char *at = values_of(committed) + committed->variables, *end = committed->bytes + committed->size;
    struct entry entry;
    for (; (size_t)(end - at) > sizeof(entry); at += ls_state_transfer_round((size_t)entry.value)) {
        memcpy(&entry, at, sizeof(entry));
        const char *name = at + sizeof(entry);
        at = name + ls_state_transfer_round((size_t)entry.name);
        if ((size_t)entry.value == registered->size && !strcmp(name, registered->name)) return at;
    }
    return NULL;
}

static ls_status check_made(const ls_strategy *strategy) {
    const struct ls_elastic_state *committed = &strategy->committed;
    if (committed->variables != ls_variables_size(strategy, false))
        return ls_fail(LS_FAILED_PRECONDITION, "variables were made after the last commit");
    for (const struct ls_registered *r = committed->registered; r; r = r->next)
        if (!r->begins && !find_value(committed, r))
            return ls_fail(LS_FAILED_PRECONDITION, "'%s' was registered after the last commit", r->name);
    return LS_OK;
}

static void load(ls_strategy *strategy) {
    const struct ls_elastic_state *committed = &strategy->committed;
    ls_variables_unpack(strategy, false, values_of(committed));
    ls_reached("undo");
    for (const struct ls_registered *r = committed->registered; r; r = r->next) {
        const char *value = find_value(committed, r);
        if (value)
            memcpy(r->data, value, r->size);
        else
            memset(r->data, 0, r->size);
    }
}

/* ---- the loop ---- */

/* True if a state of the same size has entries of the same names and sizes at the same places. */
static bool same_entries(const struct ls_elastic_state *committed, const char *given) {
    size_t at = (size_t)(values_of(committed) - committed->bytes) + committed->variables;
    struct entry entry;
    while (at + sizeof(entry) <= committed->size) {
        memcpy(&entry, committed->bytes + at, sizeof(entry));
        size_t named = sizeof(entry) + ls_state_transfer_round((size_t)entry.name);
        if (memcmp(committed->bytes + at, given + at, named) != 0) return false;
        at += named + ls_state_transfer_round((size_t)entry.value);
    }
    return true;
}

/* Takes another worker's state as this worker's last commit. Both have the same variables and registrations, so the
 * values have the same places. */
static ls_status take_inherited(ls_strategy *strategy) {
    const struct ls_bytes *given = &strategy->runtime->inherited[LS_STATE_LOOP];
    struct ls_elastic_state *committed = &strategy->committed;
    struct heading heading, own;
    ls_status status = prepare_state(strategy);
    if (status) return status;
    memcpy(&own, committed->bytes, sizeof(own));
    if (given->size >= sizeof(heading)) memcpy(&heading, given->data, sizeof(heading));
    const char *lines = (const char *)given->data + sizeof(heading);
    if (given->size < sizeof(heading) || heading.lines < 8 || heading.values < 0 ||
        given->size != sizeof(heading) + (size_t)heading.lines + (size_t)heading.values || lines[heading.lines - 1])
        return ls_fail(LS_FAILED_PRECONDITION, "the others are not in a custom loop of this kind");
    status = ls_state_transfer_compare(strategy->runtime, "loop", lines, committed->bytes + sizeof(heading));
    if (status) return status;
    if (given->size != committed->size || heading.lines != own.lines)
        return ls_fail(LS_FAILED_PRECONDITION, "the others' state has %zu bytes, this worker's %zu", given->size,
                       committed->size);
    save(strategy); /* the names */
    if (!same_entries(committed, given->data))
        return ls_fail(LS_FAILED_PRECONDITION, "the others' state has other values than this worker's");
    memcpy(committed->bytes, given->data, given->size);
    ls_state_transfer_drop(strategy->runtime, LS_STATE_LOOP);
    return LS_OK;
}

/* All workers begin with the same names, and with the first worker's values of the variables. */
static ls_status agree_on_state(ls_strategy *strategy) {
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    ls_status status = describe_state(strategy, &lines);
    if (!status) status = ls_runtime_agree(strategy->runtime, "loop", lines);
    return status ? status : ls_variables_flush(strategy);
}

ls_status ls_strategy_restore(ls_strategy *strategy) {
    LS_NEED(strategy);
    struct ls_runtime *runtime = strategy->runtime;
    ls_status status = ls_variables_check_mirrored(strategy);
    if (status) return status;
    bool inherits = runtime->inherited[LS_STATE_LOOP].data, first = !strategy->committed.bytes && !inherits;
    if (first && runtime->inherited[LS_STATE_TRAINING].data)
        status = ls_fail(LS_FAILED_PRECONDITION, "the others are in no custom loop, and have been in none");
    else if (first)
        status = agree_on_state(strategy);
    else if (inherits)
        status = take_inherited(strategy);
    if (!status && !first) status = check_made(strategy);
    if (status) return status;
    if (first) return ls_strategy_commit(strategy);
    load(strategy);
    return LS_OK;
}

ls_status ls_strategy_commit(ls_strategy *strategy) {
    LS_NEED(strategy);
    const struct ls_elastic_state *committed = &strategy->committed;
    ls_status status = LS_OK;
    bool fits = committed->bytes && !committed->changed && committed->variables == ls_variables_size(strategy, false);
    if (!fits) status = prepare_state(strategy);
    if (status) return status;
    save(strategy);
    ls_state_transfer_drop(strategy->runtime, LS_STATE_LOOP); /* of a loop before this one */
    ls_state_transfer_commit(strategy->runtime);
    return LS_OK;
}

/* ---- the strategy's participant ---- */

/* A process that is started anew broadcasts its variables, unless it inherits a commit. Without one all do it again. */
static void detach_variables(void *context) {
    ls_strategy *strategy = context;
    if (!strategy->committed.bytes) ls_variables_begin_anew(strategy);
}

static void close_state(void *context) {
    ls_strategy *strategy = context;
    ls_variables_free(strategy);
    while (strategy->committed.registered) ls_elastic_state_remove(strategy, strategy->committed.registered->data);
    ls_free(ls_steal(strategy->committed.bytes));
}

/* Gives the last commit itself, which stays while recovery copies it. */
static ls_status encode_state(void *context, struct ls_bytes *bytes, void **made) {
    const struct ls_elastic_state *committed = context;
    *bytes = (struct ls_bytes){committed->bytes, committed->size};
    *made = NULL;
    return LS_OK;
}

static const struct ls_participant_ops participant_ops = {detach_variables, detach_variables, ls_variables_add_replicas,
                                                          ls_variables_drop_replicas, close_state};

void ls_elastic_state_enlist(ls_strategy *strategy) {
    strategy->committed.participant = (struct ls_participant){.ops = &participant_ops, .context = strategy};
    ls_participant_enlist(strategy, &strategy->committed.participant);
    strategy->runtime->sources[LS_STATE_LOOP] = (struct ls_state_source){encode_state, &strategy->committed};
}
