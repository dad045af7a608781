/* Random TF_CONFIGs against what they were made to say, and random damage to them, which is answered by a config that
 * fits itself or by one error. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "resolver/tf_config.h"
#include "property/document.h"

enum { MUTANTS = 20 };

#define EXPECT(condition)                                                                                              \
    if (!(condition)) trial_fail("--seed %" PRIu64 ": not " #condition ": %s", seed, text)

/* ---- the oracle ---- */

static void check_tasks(uint64_t seed, const struct document *document, const struct ls_cluster_view *config) {
    const char *text = document->text;
    int next = 0;
    for (int role = LS_TASK_CHIEF; role < ROLES; role++)
        for (int i = 0; i < document->counts[role]; i++, next++) {
            EXPECT(next < config->task_count && (int)config->tasks[next].type == role &&
                   config->tasks[next].index == i);
            EXPECT(!strcmp(config->tasks[next].address, document->addresses[role][i]));
        }
    EXPECT(next == config->task_count);
}

static void check_valid(uint64_t seed, const struct document *document, const struct ls_cluster_view *config) {
    const char *text = document->text;
    int chiefs = document->counts[LS_TASK_CHIEF], workers = document->counts[LS_TASK_WORKER];
    int servers = document->counts[LS_TASK_PS];
    bool alone = document->local || document->type == LS_TASK_EVALUATOR;
    int rank = alone                              ? 0
               : document->type == LS_TASK_PS     ? -1
               : document->type == LS_TASK_WORKER ? chiefs + document->index
                                                  : 0;
    EXPECT(config->cluster_mode == !document->local);
    EXPECT(config->num_workers == (alone ? 1 : chiefs + workers));
    EXPECT(config->id_in_cluster == rank && config->is_chief == (rank == 0));
    if (document->local) return;
    EXPECT(config->type == document->type && config->index == document->index);
    check_tasks(seed, document, config);
    for (int i = 0; i < chiefs + workers; i++) {
        const struct ls_task *task = ls_cluster_view_member(config, i);
        EXPECT(task && task->type == (i < chiefs ? LS_TASK_CHIEF : LS_TASK_WORKER));
        EXPECT(task->index == (i < chiefs ? 0 : i - chiefs));
    }
    for (int i = chiefs + workers; i < chiefs + workers + servers; i++) {
        const struct ls_task *task = ls_cluster_view_member(config, i);
        EXPECT(task ? task->type == LS_TASK_PS : !(chiefs + workers));
    }
    EXPECT(!ls_cluster_view_member(config, -1) && !ls_cluster_view_member(config, chiefs + workers + servers));
}

/* All tasks of one cluster must read the same of it, whatever their own TF_CONFIG looks like. */
static void check_document(uint64_t seed, const struct document *document) {
    const char *text = document->text;
    struct ls_cluster_view *config = NULL;
    ls_status status = ls_tf_config_parse(text, &config);
    if (document->mistake) {
        EXPECT(status == LS_INVALID_ARGUMENT && !config);
        if (strncmp(ls_error(), "TF_CONFIG", 9) != 0 || !strstr(ls_error(), document_complaint(document->mistake)))
            trial_fail("--seed %" PRIu64 ": '%s' does not say '%s': %s", seed, ls_error(),
                       document_complaint(document->mistake), text);
        return;
    }
    if (status) trial_fail("--seed %" PRIu64 ": %s: %s", seed, ls_error(), text);
    check_valid(seed, document, config);
    ls_cluster_view_free(config);
}

/* ---- damage ---- */

static void insert(char *text, size_t size, size_t place, const char *piece) {
    size_t length = strlen(text), added = strlen(piece);
    if (length + added >= size) return;
    memmove(text + place + added, text + place, length - place + 1);
    memcpy(text + place, piece, added);
}

static void damage(struct draw *draw, char *text, size_t size) {
    static const char *const pieces[] = {
        "{",    "}",     "[",          "]",         ",", ":", "\"",      "\\",      "\\u0000", "\xff",
        "null", "1e999", "\"worker\"", "\"task\":", "-", "0", "\"a:1\"", "{\"0\":", " ",       "\xc3\xa9"};
    size_t length = strlen(text), place = draw_below(draw, length + 1), count = 1 + draw_below(draw, 12);
    if (place + count > length) count = length - place;
    switch (draw_below(draw, 4)) {
    case 0:
        if (place < length) text[place] = (char)(1 + draw_below(draw, 255));
        break;
    case 1:
        memmove(text + place, text + place + count, length - place - count + 1);
        break;
    case 2: {
        char copy[16] = "";
        memcpy(copy, text + place, count);
        insert(text, size, draw_below(draw, length + 1), copy);
        break;
    }
    default:
        insert(text, size, place, pieces[draw_below(draw, sizeof(pieces) / sizeof(pieces[0]))]);
    }
}

static void check_damaged(uint64_t seed, const char *text) {
    struct ls_cluster_view *config = NULL;
    ls_status status = ls_tf_config_parse(text, &config);
    EXPECT(status == LS_OK || status == LS_INVALID_ARGUMENT);
    if (status) {
        EXPECT(!config && !strncmp(ls_error(), "TF_CONFIG", 9));
        return;
    }
    EXPECT(config->cluster_mode == (config->type != LS_TASK_NONE));
    EXPECT(config->num_workers >= 1 || config->id_in_cluster == -1);
    EXPECT(config->id_in_cluster < config->num_workers);
    if (config->cluster_mode && (config->type == LS_TASK_CHIEF || config->type == LS_TASK_WORKER)) {
        const struct ls_task *own = ls_cluster_view_member(config, config->id_in_cluster);
        EXPECT(own && own->type == config->type && own->index == config->index);
    }
    for (int i = 0; i < config->task_count; i++) EXPECT(config->tasks[i].port > 0 && config->tasks[i].port < 65536);
    ls_cluster_view_free(config);
}

static long one_document(uint64_t seed) {
    static struct document document;
    static char text[DOCUMENT];
    document_draw(&document, seed);
    trial_note(document.text);
    check_document(seed, &document);
    struct draw draw = draw_from(seed, 1);
    for (int i = 0; i < MUTANTS; i++) {
        (void)snprintf(text, sizeof(text), "%s", document.text);
        for (size_t left = 1 + draw_below(&draw, 6); left > 0; left--) damage(&draw, text, sizeof(text));
        trial_note(text);
        check_damaged(seed, text);
    }
    return 1 + MUTANTS;
}

int main(int argc, char **argv) {
    return trial_main(argc, argv, "property/tf_config", one_document);
}
