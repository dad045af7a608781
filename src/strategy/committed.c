/* A custom loop's state: variables, iterators' positions and what the user has registered, as they were at the last
 * commit (Horovod's elastic State). A step that fails leaves them half changed; restore brings the last commit back. */
#include <string.h>

#include "base/memory.h"
#include "strategy/handover.h"
#include "strategy/strategy.h"

struct ls_registered {
    struct ls_registered *next;
    char *name, *lines; /* lines NULL: none */
    void *data;         /* borrowed */
    size_t size;
};

#define KIND 0x4C53435553544F4D /* a state of a custom loop, not of fit */

struct heading {
    int64_t kind;
    int64_t lines; /* bytes of the description, with its zero, in whole words; then the variables, then the rest */
    int64_t values;
};

/* ---- registering ---- */

static void registered_free(struct ls_registered *registered) {
    ls_free(registered->name);
    ls_free(registered->lines);
    ls_free(registered);
}

ls_status ls_committed_add(ls_strategy *strategy, const char *name, const char *lines, void *data, size_t size) {
    struct ls_registered *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a registration", sizeof(*made));
    *made = (struct ls_registered){strategy->committed.registered, ls_strdup(name), lines ? ls_strdup(lines) : NULL,
                                   data, size};
    if (!made->name || (lines && !made->lines)) {
        registered_free(made);
        return ls_fail_memory("a registration", strlen(name));
    }
    strategy->committed.registered = made;
    return LS_OK;
}

void ls_committed_remove(ls_strategy *strategy, const void *data) {
    for (struct ls_registered **at = &strategy->committed.registered; *at; at = &(*at)->next) {
        struct ls_registered *found = *at;
        if (found->data != data) continue;
        *at = found->next;
        registered_free(found);
        return;
    }
}

void ls_committed_free(ls_strategy *strategy) {
    while (strategy->committed.registered) ls_committed_remove(strategy, strategy->committed.registered->data);
    ls_free(strategy->committed.bytes);
    strategy->committed.bytes = NULL;
}

ls_status ls_strategy_register(ls_strategy *strategy, const char *name, void *data, size_t size) {
    if (!name || !*name || strpbrk(name, "\n=") || !data || !size)
        return ls_fail(LS_INVALID_ARGUMENT, "registered state needs a name, without '=' and line breaks, and memory");
    for (const struct ls_registered *other = strategy->committed.registered; other; other = other->next)
        if (!strcmp(other->name, name)) return ls_fail(LS_ALREADY_EXISTS, "'%s' is registered already", name);
    return ls_committed_add(strategy, name, NULL, data, size);
}

/* ---- to bytes ---- */

static size_t values_size(const ls_strategy *strategy) {
    size_t size = ls_variables_size(strategy);
    for (const struct ls_registered *r = strategy->committed.registered; r; r = r->next)
        size += ls_state_round(r->size);
    return size;
}

/* What a state is one of: equal on all workers. */
static ls_status describe(const ls_strategy *strategy, char **lines) {
    LS_CLEANUP(ls_free_pointer) char *variables = NULL;
    ls_status status = ls_variables_describe(strategy, &variables);
    if (status) return status;
    size_t size = strlen(variables) + 1, used = 0;
    for (const struct ls_registered *r = strategy->committed.registered; r; r = r->next)
        size += strlen(r->name) + (r->lines ? strlen(r->lines) : 0) + 64;
    char *made = ls_alloc(size);
    if (!made) return ls_fail_memory("a state's description", size);
    used = (size_t)snprintf(made, size, "%s", variables);
    for (const struct ls_registered *r = strategy->committed.registered; r; r = r->next)
        used += (size_t)snprintf(made + used, size - used, "registered %s=%zu bytes\n%s", r->name, r->size,
                                 r->lines ? r->lines : "");
    *lines = made;
    return LS_OK;
}

static ls_status prepare(ls_strategy *strategy) {
    LS_CLEANUP(ls_free_pointer) char *lines = NULL;
    ls_status status = describe(strategy, &lines);
    if (status) return status;
    struct heading heading = {KIND, (int64_t)ls_state_round(strlen(lines) + 1), (int64_t)values_size(strategy)};
    size_t size = sizeof(heading) + (size_t)heading.lines + (size_t)heading.values;
    char *bytes = ls_alloc_aligned(size);
    if (!bytes) return ls_fail_memory("a commit", size);
    memcpy(bytes, &heading, sizeof(heading));
    memcpy(bytes + sizeof(heading), lines, strlen(lines) + 1);
    ls_free(strategy->committed.bytes);
    strategy->committed.bytes = bytes;
    strategy->committed.size = size;
    return LS_OK;
}

static char *values_of(const ls_strategy *strategy) {
    const struct ls_committed *committed = &strategy->committed;
    return committed->bytes + committed->size - values_size(strategy);
}

/* Whether what there is is what there was at the last commit. */
static bool fits(const ls_strategy *strategy) {
    struct heading heading;
    memcpy(&heading, strategy->committed.bytes, sizeof(heading));
    return (size_t)heading.values == values_size(strategy);
}

static void save(const ls_strategy *strategy) {
    char *place = values_of(strategy);
    ls_variables_pack(strategy, place);
    place += ls_variables_size(strategy);
    for (const struct ls_registered *r = strategy->committed.registered; r;
         place += ls_state_round(r->size), r = r->next)
        memcpy(place, r->data, r->size);
}

static void load(ls_strategy *strategy) {
    const char *place = values_of(strategy);
    ls_variables_unpack(strategy, place);
    place += ls_variables_size(strategy);
    for (const struct ls_registered *r = strategy->committed.registered; r;
         place += ls_state_round(r->size), r = r->next)
        memcpy(r->data, place, r->size);
}

static ls_status encode(void *context, void **bytes, size_t *size) {
    const struct ls_committed *committed = context;
    *bytes = ls_alloc(ls_state_round(committed->size));
    if (!*bytes) return ls_fail_memory("a copy of the state", committed->size);
    memcpy(*bytes, committed->bytes, committed->size);
    *size = committed->size;
    return LS_OK;
}

/* ---- the loop ---- */

/* What another worker gave, as this worker's last commit. */
static ls_status take_inherited(ls_strategy *strategy) {
    const struct ls_bytes *given = &strategy->membership->inherited;
    struct ls_committed *committed = &strategy->committed;
    struct heading heading;
    ls_status status = prepare(strategy);
    if (status) return status;
    if (given->size >= sizeof(heading)) memcpy(&heading, given->data, sizeof(heading));
    const char *lines = (const char *)given->data + sizeof(heading);
    if (given->size < sizeof(heading) || heading.kind != KIND || heading.lines < 8 || heading.values < 0 ||
        given->size != sizeof(heading) + (size_t)heading.lines + (size_t)heading.values || lines[heading.lines - 1])
        return ls_fail(LS_FAILED_PRECONDITION, "the others are not in a custom loop of this kind");
    status = ls_state_compare(strategy->membership, "loop", lines, committed->bytes + sizeof(heading));
    if (status) return status;
    memcpy(committed->bytes, given->data, given->size);
    ls_free(ls_membership_take_inherited(strategy->membership).data);
    return LS_OK;
}

ls_status ls_strategy_restore(ls_strategy *strategy) {
    struct ls_membership *membership = strategy->membership;
    ls_status status = ls_variables_check_mirrored(strategy);
    if (status) return status;
    bool first = !strategy->committed.bytes && !membership->inherited.data;
    if (first)
        status = ls_variables_flush(strategy);
    else if (membership->inherited.data)
        status = take_inherited(strategy);
    if (!status && !first && !fits(strategy))
        status = ls_fail(LS_FAILED_PRECONDITION, "variables or registered state were made after the last commit");
    if (status) return status;
    membership->source = (struct ls_state_source){encode, &strategy->committed};
    if (first) return ls_strategy_commit(strategy);
    load(strategy);
    return LS_OK;
}

ls_status ls_strategy_commit(ls_strategy *strategy) {
    const struct ls_committed *committed = &strategy->committed;
    ls_status status = LS_OK;
    if (!committed->bytes || !fits(strategy)) status = prepare(strategy);
    if (status) return status;
    save(strategy);
    ls_membership_commit(strategy->membership);
    return LS_OK;
}
