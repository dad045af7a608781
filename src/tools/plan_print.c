/* Text lists tasks in a table; JSON has the same numbers, in bytes and seconds. */
#include "tools/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/options.h"
#include "store/memory_check.h"
#include "shard/layout.h"
#include "sync/meeting.h"
#include "train/shards.h"
#include "base/plain.h"

/* A server's elements of one variable, and of all. Tables come behind the variables. */
struct kept {
    size_t *of; /* [count]; NULL without memory */
    size_t count;
    size_t own, variables;
};

static void name_task(const struct ls_tools_planning *planning, int rank, char name[32]) {
    const struct ls_task *task = planning->cluster ? ls_cluster_view_member(planning->cluster, rank) : NULL;
    int server = rank - planning->workers;
    if (task)
        (void)snprintf(name, 32, "%s", task->name);
    else
        (void)snprintf(name, 32, "%s:%d", server < 0 ? "worker" : "ps", server < 0 ? rank : server);
}

static int64_t rows_of(const struct ls_tools_planning *planning, int rank) {
    int64_t rows = 0;
    for (int i = planning->first[rank]; i < planning->first[rank + 1]; i++) rows += ls_plan_share_rows(planning, i);
    return rows;
}

static size_t count_parameters(const struct ls_tools_planning *planning) {
    const struct ls_model_built *built = &planning->model->built;
    size_t count = 0;
    for (size_t i = 0; i < built->part_count; i++) count += built->parts[i].count;
    for (size_t t = 0; t < planning->terms.table_count; t++)
        count += (size_t)(planning->terms.tables[t].rows * planning->terms.tables[t].width);
    return count;
}

static struct kept kept_by(const struct ls_tools_planning *planning, int server) {
    const struct ls_terms_model *terms = &planning->terms;
    struct kept kept = {.count = terms->part_count + terms->table_count};
    kept.of = ls_alloc_array(kept.count + 1, sizeof(*kept.of));
    const struct ls_layout layout = ls_layout_of(terms, planning->servers);
    size_t count = ls_layout_pieces_of(&layout, server, NULL);
    LS_CLEANUP(ls_free_pointer) struct ls_piece *pieces = ls_alloc_array(count + 1, sizeof(*pieces));
    if (!kept.of || !pieces) return kept;
    (void)ls_layout_pieces_of(&layout, server, pieces);
    for (size_t i = 0; i < count; i++) {
        if (!kept.of[pieces[i].variable]) kept.variables++;
        kept.of[pieces[i].variable] += pieces[i].end - pieces[i].begin;
        kept.own += pieces[i].end - pieces[i].begin;
    }
    for (size_t t = 0; t < terms->table_count; t++) {
        const struct ls_terms_table *table = &terms->tables[t];
        size_t elements = ls_layout_rows(&layout, table->rows, server) * (size_t)table->width;
        kept.of[terms->part_count + t] = elements;
        kept.variables += elements > 0;
        kept.own += elements;
    }
    return kept;
}

static const char *variable_name(const struct ls_tools_planning *planning, size_t variable) {
    const struct ls_network *network = planning->model->built.network;
    size_t parts = planning->terms.part_count;
    return (variable < parts ? ls_network_variable(network, (int)variable)
                             : ls_network_table(network, (int)(variable - parts)))
        ->name;
}

/* Of bytes kept: the largest over the mean. */
static double load_of_servers(const struct ls_tools_planning *planning) {
    size_t most = 0, all = 0;
    for (int s = 0; s < planning->servers; s++) {
        size_t bytes = ls_holding_measure(&planning->terms, planning->servers, s);
        if (bytes > most) most = bytes;
        all += bytes;
    }
    return all ? (double)most * planning->servers / (double)all : 1;
}

static size_t part_of(const struct ls_tools_planning *planning, int server) {
    return planning->keeps ? ls_holding_measure(&planning->terms, planning->servers, server) : 0;
}

static size_t memory_of(const struct ls_tools_planning *planning, int server) {
    if (!planning->keeps) return 0;
    return ls_memory_check_needed(&planning->terms, planning->workers, planning->servers, server);
}

/* ---- JSON ---- */

static void put_variables(const struct ls_tools_planning *planning, int server, FILE *out) {
    struct kept kept = kept_by(planning, server);
    const char *between = "";
    ls_json_print(out, ", 'elements': %zu, 'part': %zu, 'memory': %zu, 'variables': {", kept.own,
                  part_of(planning, server), memory_of(planning, server));
    for (size_t v = 0; kept.of && v < kept.count; v++) {
        if (!kept.of[v]) continue;
        ls_json_print(out, "%-s%s: %zu", between, variable_name(planning, v), kept.of[v]);
        between = ", ";
    }
    (void)fputc('}', out);
    ls_free(kept.of);
}

static void put_task(const struct ls_tools_planning *planning, int rank, FILE *out) {
    const struct ls_traffic *traffic = &planning->round[rank];
    char name[32];
    name_task(planning, rank, name);
    ls_json_print(out, "%-s{'task': %s, 'rank': %d, 'sent': %zu, 'received': %zu", rank ? ", " : "", name, rank,
                  traffic->sent, traffic->received);
    if (rank < planning->workers)
        ls_json_print(out, ", 'first_replica': %d, 'replicas': %d, 'rows': %lld, 'memory': %zu", planning->first[rank],
                      ls_plan_share_replicas(planning, rank), (long long)rows_of(planning, rank),
                      ls_tools_plan_memory(planning, rank));
    else if (planning->keeps)
        put_variables(planning, rank - planning->workers, out);
    (void)fputc('}', out);
}

static double or_null(double seconds) {
    return seconds > 0 ? seconds : (double)NAN;
}

static void put_tables(const struct ls_tools_planning *planning, FILE *out) {
    (void)fputs(", \"tables\": [", out);
    for (size_t t = 0; t < planning->terms.table_count; t++) {
        const struct ls_terms_table *table = &planning->terms.tables[t];
        ls_json_print(out, "%-s{'name': %s, 'rows': %lld, 'width': %lld, 'touched': %zu}", t ? ", " : "",
                      variable_name(planning, planning->terms.part_count + t), (long long)table->rows,
                      (long long)table->width, ls_plan_share_touched(planning, 0, table));
    }
    (void)fputc(']', out);
}

/* As many as there are workers, at most. */
static int copies_of_moments(const struct ls_tools_planning *planning) {
    int copies = planning->strategy_options.shard_copies;
    return copies < planning->workers ? copies : planning->workers;
}

/* With memory_limit. */
static void put_candidates(const struct ls_tools_planning *planning, FILE *out) {
    if (!planning->candidates) return;
    ls_json_print(out, ", 'memory_limit': %lld, 'fits': %s, 'candidates': [",
                  (long long)planning->options->memory_limit, planning->candidates[planning->fit].words);
    for (int i = 0; i < planning->candidate_count; i++)
        ls_json_print(out, "%-s{'options': %s, 'memory': %zu}", i ? ", " : "", planning->candidates[i].words,
                      planning->candidates[i].memory);
    (void)fputc(']', out);
}

static size_t moments_of_first(const struct ls_tools_planning *planning) {
    const struct ls_shards_of first = ls_plan_share_of(planning, 0);
    return ls_shards_bytes(planning->model, &first);
}

static void print_json(const struct ls_tools_planning *planning, FILE *out) {
    const struct ls_tools_worker_cost *worker = &planning->worker;
    double step = ls_plan_wire_step(planning);
    ls_json_print(out,
                  "{'strategy': %s, 'workers': %d, 'servers': %d, 'replicas': %d, 'batch': %lld, 'parameters': %zu, "
                  "'moments': %d, 'copies': %d, 'steps': %d, 'all_reduce': %s, 'planned_bytes': %lld, "
                  "'arena_bytes': %lld, 'load': %.6g",
                  planning->options->kind, planning->workers, planning->servers, planning->total,
                  (long long)planning->batch, count_parameters(planning),
                  ls_optimizer_moments(&planning->model->progress.step.rule), planning->keeps ? planning->copies : 0,
                  planning->meets ? planning->strategy->local.sync_every : 1, planning->algorithm,
                  (long long)worker->memory.planned_bytes, (long long)worker->memory.arena_bytes,
                  planning->keeps ? load_of_servers(planning) : (double)NAN);
    if (planning->divides)
        ls_json_print(out, ", 'shard': %s, 'shard_copies': %d, 'moment_bytes': %zu, 'gradient_bytes': %zu",
                      ls_option_names_sharding(planning->strategy_options.shard), copies_of_moments(planning),
                      moments_of_first(planning), ls_plan_memory_gradients(planning, 0, true));
    ls_json_print(out,
                  ", 'compute_seconds': %.9g, 'wire_seconds': %.9g, 'step_seconds': %.9g, 'examples_per_second': %.9g",
                  or_null(worker->compute), or_null(ls_plan_wire_seconds(planning, planning->round)), or_null(step),
                  step > 0 ? (double)planning->batch / step : (double)NAN);
    put_tables(planning, out);
    for (int r = LS_RECOMPUTE_NONE; r <= LS_RECOMPUTE_BLOCKS; r++)
        ls_json_print(out, "%-s{'recompute': %s, 'arena_bytes': %zu, 'moved_bytes': %.0f}",
                      r > LS_RECOMPUTE_NONE ? ", " : ", \"layers\": [", ls_option_names_recompute((ls_recompute)r),
                      worker->costs[r].arena, worker->costs[r].moved);
    (void)fputc(']', out);
    put_candidates(planning, out);
    (void)fputs(", \"tasks\": [", out);
    for (int r = 0; r < planning->workers + planning->servers; r++) put_task(planning, r, out);
    (void)fputs("]}\n", out);
}

/* ---- text ---- */

static double mega(size_t bytes) {
    return (double)bytes / 1e6;
}

static void print_heading(const struct ls_tools_planning *planning, FILE *out) {
    const ls_model *model = planning->model;
    const ls_local_sgd_options *local = &planning->strategy->local;
    (void)ls_plain_print(out, "model     %zu variables, %zu parameters (%.3f MB), %d moments each\n",
                         model->built.part_count, count_parameters(planning), mega(4 * count_parameters(planning)),
                         ls_optimizer_moments(&model->progress.step.rule));
    (void)fprintf(out, "strategy  %s: %d worker%s, %d replica%s, %d parameter server%s; %lld rows a step\n",
                  planning->serves && !planning->stores ? "parameter-server (hybrid)" : planning->options->kind,
                  planning->workers, planning->workers == 1 ? "" : "s", planning->total,
                  planning->total == 1 ? "" : "s", planning->servers, planning->servers == 1 ? "" : "s",
                  (long long)planning->batch);
    for (size_t t = 0; t < planning->terms.table_count; t++)
        (void)fprintf(out, "table     %s: %lld rows of %lld, on servers alone; a step of worker 0 takes at most %zu\n",
                      variable_name(planning, planning->terms.part_count + t),
                      (long long)planning->terms.tables[t].rows, (long long)planning->terms.tables[t].width,
                      ls_plan_share_touched(planning, 0, &planning->terms.tables[t]));
    if (planning->divides)
        (void)ls_plain_print(out, "moments   divided over the workers, %d cop%s of each: %.3f MB on the first\n",
                             copies_of_moments(planning), copies_of_moments(planning) == 1 ? "y" : "ies",
                             mega(moments_of_first(planning)));
    if (planning->divides && planning->strategy_options.shard == LS_SHARDING_GRADIENTS)
        (void)ls_plain_print(out, "gradients a worker keeps those of its moments: at most %.3f MB on the first\n",
                             mega(ls_plan_memory_gradients(planning, 0, true)));
    if (planning->meets)
        (void)ls_plain_print(out, "meetings  every %d steps, %d fragment%s; at once a link carries %.3f MB\n",
                             local->sync_every, local->fragments ? local->fragments : 1,
                             local->fragments > 1 ? "s" : "", mega(planning->beside->sent + planning->behind->sent));
}

static void print_tasks(const struct ls_tools_planning *planning, FILE *out) {
    (void)fprintf(out, "\n%-12s %5s %-14s %8s %12s %12s %12s\n", "task", "rank", "replicas", "rows", "sends MB",
                  "receives MB", "memory MB");
    for (int r = 0; r < planning->workers + planning->servers; r++) {
        char name[32], replicas[32] = "-";
        bool works = r < planning->workers;
        name_task(planning, r, name);
        if (works && ls_plan_share_replicas(planning, r) == 1)
            (void)snprintf(replicas, sizeof(replicas), "%d", planning->first[r]);
        else if (works)
            (void)snprintf(replicas, sizeof(replicas), "%d to %d", planning->first[r], planning->first[r + 1] - 1);
        (void)ls_plain_print(
            out, "%-12s %5d %-14s %8lld %12.3f %12.3f %12.3f\n", name, r, replicas,
            works ? (long long)rows_of(planning, r) : 0, mega(planning->round[r].sent),
            mega(planning->round[r].received),
            mega(works ? ls_tools_plan_memory(planning, r) : memory_of(planning, r - planning->workers)));
    }
    (void)fprintf(out, "Bytes are those of %d step%s, each way, where each task has a link of its own.\n",
                  planning->meets ? planning->strategy->local.sync_every : 1,
                  planning->meets && planning->strategy->local.sync_every > 1 ? "s" : "");
}

static void print_server(const struct ls_tools_planning *planning, int server, FILE *out) {
    struct kept kept = kept_by(planning, server);
    char name[32];
    name_task(planning, planning->workers + server, name);
    (void)ls_plain_print(out, "%-12s %zu elements of %zu variables; its part takes %.3f MB\n", name, kept.own,
                         kept.variables, mega(part_of(planning, server)));
    for (size_t v = 0; kept.of && v < kept.count; v++)
        if (kept.of[v]) (void)fprintf(out, "    %-32s %12zu\n", variable_name(planning, v), kept.of[v]);
    ls_free(kept.of);
}

static void print_servers(const struct ls_tools_planning *planning, FILE *out) {
    if (!planning->keeps) return;
    (void)ls_plain_print(out, "\nServers, %d cop%s of each element, the largest part %.3f times the mean:\n",
                         planning->copies, planning->copies == 1 ? "y" : "ies", load_of_servers(planning));
    for (int s = 0; s < planning->servers; s++) print_server(planning, s, out);
}

/* Memory and bytes by --recompute. */
static void print_costs(const struct ls_tools_planning *planning, FILE *out) {
    (void)fputs("its layers          take, and move a step at least:\n", out);
    for (int r = LS_RECOMPUTE_NONE; r <= LS_RECOMPUTE_BLOCKS; r++)
        (void)ls_plain_print(out, "  --recompute %-11s  %12.3f MB, and %.3f MB\n",
                             ls_option_names_recompute((ls_recompute)r), mega(planning->worker.costs[r].arena),
                             planning->worker.costs[r].moved / 1e6);
}

static void print_end(const struct ls_tools_planning *planning, FILE *out) {
    double step = ls_plan_wire_step(planning);
    (void)ls_plain_print(out, "\na replica's memory  %.3f MB planned, of them %.3f MB for layers\n",
                         mega((size_t)planning->worker.memory.planned_bytes),
                         mega((size_t)planning->worker.memory.arena_bytes));
    print_costs(planning, out);
    if (planning->algorithm) (void)fprintf(out, "all-reduce          %s, without measurements\n", planning->algorithm);
    if (planning->worker.compute > 0)
        (void)ls_plain_print(out, "computing           %.3f ms a step, measured here%s\n",
                             1e3 * planning->worker.compute,
                             planning->terms.table_count ? " with whole tables: servers take a part of it" : "");
    if (planning->options->bits > 0)
        (void)ls_plain_print(out, "wire                %.3f ms for these bytes at %g Mbit/s\n",
                             1e3 * ls_plan_wire_seconds(planning, planning->round), planning->options->bits / 1e6);
    if (step > 0)
        (void)ls_plain_print(out, "a step              %.3f ms at least%s, %.0f examples a second\n", 1e3 * step,
                             planning->worker.compute > 0 ? "" : " (computing is not measured: --measure)",
                             (double)planning->batch / step);
}

/* With memory_limit: what was tried, up to what is enough, and beyond. */
static void print_candidates(const struct ls_tools_planning *planning, FILE *out) {
    if (!planning->candidates) return;
    const char *words = planning->candidates[planning->fit].words;
    (void)ls_plain_print(out, "\nThe largest worker with these options more; %.3f MB are enough with %s:\n",
                         mega((size_t)planning->options->memory_limit), *words ? words : "none of them");
    for (int i = 0; i < planning->candidate_count; i++) {
        const struct ls_tools_candidate *candidate = &planning->candidates[i];
        (void)ls_plain_print(out, "  %-58s %12.3f MB%s\n", *candidate->words ? candidate->words : "none",
                             mega(candidate->memory),
                             candidate->memory <= (size_t)planning->options->memory_limit ? ", fits" : "");
    }
}

void ls_plan_print(const struct ls_tools_planning *planning, FILE *out) {
    if (planning->options->json) {
        print_json(planning, out);
        return;
    }
    print_heading(planning, out);
    print_tasks(planning, out);
    print_servers(planning, out);
    print_end(planning, out);
    print_candidates(planning, out);
}
