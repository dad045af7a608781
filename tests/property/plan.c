/* Random worlds, and calls on them. Counts are drawn around the sizes at which the code takes another way or begins
 * another piece, since mistakes between two of a table's sizes lie there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/algorithm.h"
#include "collective/schedule/schedules.h"
#include "collective/schedule/hosts.h"
#include "bench/oracle.h"
#include "collective/schedule/reduction.h"
#include "property/call.h"

static const char *const wires[] = {[WIRE_LOCAL] = "local",
                                    [WIRE_TCP] = "tcp",
                                    [WIRE_ODD] = "odd links",
                                    [WIRE_RING] = "rings",
                                    [WIRE_SHARED] = "shared memory"};
static const char *const kinds[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier", "share"};
static const char *const ops[] = {"sum", "mean", "min", "max", "product"};

/* ---- worlds ---- */

static bool is_mixed(const struct setting *setting) {
    return setting->host_count > 1 && setting->host_count < setting->size;
}

static bool is_one_host(const struct setting *setting) {
    return setting->host_count == 1 && setting->size > 1;
}

static void draw_hosts(struct draw *draw, struct setting *setting) {
    bool seen[MOST_RANKS] = {false};
    size_t names = draw_once_in(draw, 2) ? 1 : 1 + draw_below(draw, (size_t)setting->size);
    bool shared = setting->wire == WIRE_SHARED;
    setting->host_count = shared ? 0 : setting->size;
    for (int i = 0; i < setting->size && shared; i++) {
        setting->hosts[i] = (int)draw_below(draw, names);
        setting->host_count += !seen[setting->hosts[i]];
        seen[setting->hosts[i]] = true;
    }
}

static enum ls_algorithm draw_algorithm(struct draw *draw, const struct setting *setting) {
    static const enum ls_algorithm algorithms[] = {LS_ALGORITHM_AUTO, LS_ALGORITHM_EXCHANGE, LS_ALGORITHM_DIRECT,
                                                   LS_ALGORITHM_HALVING};
    if (is_mixed(setting) && draw_once_in(draw, 3)) return LS_ALGORITHM_TWO_LEVEL;
    if (is_one_host(setting) && draw_once_in(draw, 3)) return LS_ALGORITHM_SHARED;
    if (setting->wire == WIRE_SHARED && draw_once_in(draw, 2)) return LS_ALGORITHM_AUTO;
    return algorithms[draw_below(draw, 4)];
}

struct setting draw_setting(uint64_t seed) {
    struct draw draw = draw_from(seed, 1);
    struct setting setting = {.seed = seed, .size = 1 + (int)draw_below(&draw, MOST_RANKS)};
    static const enum wire likely[] = {WIRE_SHARED, WIRE_SHARED, WIRE_SHARED, WIRE_LOCAL,
                                       WIRE_TCP,    WIRE_ODD,    WIRE_RING};
    setting.wire = likely[draw_below(&draw, 7)];
    draw_hosts(&draw, &setting);
    setting.algorithm = draw_algorithm(&draw, &setting);
    setting.measured = !setting.algorithm && draw_once_in(&draw, 8);
    if (draw_once_in(&draw, 2)) setting.segment = (size_t)64 << draw_below(&draw, 14);
    if (draw_once_in(&draw, 4)) setting.segment = 64 + draw_below(&draw, 100000);
    return setting;
}

void setting_describe(const struct setting *setting, char *text, size_t size) {
    int used =
        snprintf(text, size, "--seed %llu: %d ranks, %s, algorithm %s%s, segment %zu, hosts",
                 (unsigned long long)setting->seed, setting->size, wires[setting->wire],
                 ls_algorithm_info(setting->algorithm)->name, setting->measured ? " (measured)" : "", setting->segment);
    for (int i = 0; i < setting->size && used > 0 && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, " %d", setting->hosts[i]);
}

/* ---- calls ---- */

/* Bytes, of which the most that all arrays together may have is given. */
static size_t draw_bytes(struct draw *draw, const struct setting *setting, size_t element, size_t leaves) {
    const size_t units[] = {64,
                            1024,
                            2048,
                            16384,
                            65536,
                            131072,
                            262144,
                            524288,
                            524288 / leaves / 64 * 64,
                            setting->segment ? setting->segment : 262144,
                            65536 / (size_t)setting->size};
    size_t way = draw_below(draw, 16), unit = units[draw_below(draw, sizeof(units) / sizeof(units[0]))];
    if (way < 2) return draw_below(draw, 9) * element;
    if (way < 5) return draw_below(draw, 4000) * element;
    if (way == 14) return draw_below(draw, 100000) * element;
    if (way == 15) return draw_below(draw, draw_once_in(draw, 4) ? 4 << 20 : 1 << 18) * element;
    size_t near = draw_once_in(draw, 2) ? 4 : 40, bytes = (1 + draw_below(draw, 1 + draw_below(draw, 8))) * unit;
    bytes += draw_below(draw, 2 * near + 1) * element;
    return bytes > near * element ? bytes - near * element : bytes;
}

static size_t draw_count(struct draw *draw, const struct setting *setting, const struct call *call, size_t leaves) {
    const size_t most = (size_t)32 << 20; /* bytes of all arrays */
    size_t element = ls_dtype_size(call->dtype), bytes = draw_bytes(draw, setting, element, leaves);
    return (bytes < most / leaves ? bytes : most / leaves) / element;
}

static bool fits(enum ls_algorithm algorithm, const struct setting *setting, const int *first) {
    struct ls_hosts hosts;
    if (algorithm != LS_ALGORITHM_HALVING) return true;
    if (ls_hosts_init(&hosts, setting->size, NULL)) trial_fail("no memory");
    struct ls_reduction reduction = {.size = setting->size, .first = first, .hosts = &hosts};
    bool good = ls_halving_fits(&reduction);
    ls_hosts_free(&hosts);
    return good;
}

static void draw_leaves(struct draw *draw, const struct setting *setting, struct call *call) {
    bool several = draw_once_in(draw, 2);
    for (int i = 0; i < setting->size; i++)
        call->first[i + 1] = call->first[i] + 1 + (several ? (int)draw_below(draw, 3) : 0);
    if (call->communication == LS_RING || fits(setting->algorithm, setting, call->first)) return;
    for (int i = 0; i < setting->size; i++) call->first[i + 1] = i + 1;
    if (!fits(setting->algorithm, setting, call->first)) call->communication = LS_RING;
}

static void draw_all_reduce(struct draw *draw, const struct setting *setting, struct call *call) {
    draw_leaves(draw, setting, call);
    call->count = draw_count(draw, setting, call, (size_t)call->first[setting->size]);
    if (!draw_once_in(draw, 4) || setting->algorithm == LS_ALGORITHM_HALVING) return;
    call->compression = draw_once_in(draw, 2) ? LS_COMPRESS_FP16 : LS_COMPRESS_BF16;
    call->dtype = LS_FLOAT32;
    call->op = draw_once_in(draw, 2) ? LS_SUM : LS_MEAN;
    call->count = draw_count(draw, setting, call, (size_t)call->first[setting->size]);
}

/* Of all parts together as many as were drawn; some have none. */
static void draw_parts(struct draw *draw, const struct setting *setting, struct call *call) {
    size_t total = draw_count(draw, setting, call, (size_t)setting->size), left = total;
    bool equal = draw_once_in(draw, 2);
    call->count = 0;
    for (int i = 0; i < setting->size; i++) {
        size_t share = equal ? total / (size_t)setting->size : draw_below(draw, left + 1);
        call->counts[i] = draw_once_in(draw, 8) ? 0 : share;
        call->count += call->counts[i];
        left -= equal ? 0 : call->counts[i];
    }
}

static void call_describe(const struct setting *setting, struct call *call) {
    char world[256];
    setting_describe(setting, world, sizeof(world));
    (void)snprintf(call->text, sizeof(call->text),
                   "%s; call %llu: %s %s %s %s, count %zu, root %d, leaves %d, compression %d, in pools %d", world,
                   (unsigned long long)call->number, kinds[call->kind], call->communication ? "RING" : "AUTO",
                   ls_dtype_name(call->dtype), ops[call->op], call->count, call->root, call->first[setting->size],
                   (int)call->compression, call->pooled);
}

void draw_call(const struct setting *setting, uint64_t number, struct call *call) {
    static const enum kind likely[] = {ALL_REDUCE, ALL_REDUCE, ALL_REDUCE,     ALL_REDUCE,     ALL_REDUCE, BROADCAST,
                                       ALL_GATHER, ALL_GATHER, REDUCE_SCATTER, REDUCE_SCATTER, BARRIER,    SHARE};
    struct draw draw = draw_from(setting->seed, 100 + number);
    *call = (struct call){.seed = setting->seed, .number = number, .kind = likely[draw_below(&draw, 12)]};
    call->communication = draw_once_in(&draw, 4) ? LS_RING : LS_AUTO;
    call->op = (ls_reduce_op)draw_below(&draw, LS_PRODUCT + 1);
    call->dtype = (ls_dtype)draw_below(&draw, LS_BOOL + 1);
    if (call->dtype == LS_BOOL && call->op == LS_MEAN) call->op = LS_SUM;
    call->pooled = draw_once_in(&draw, 3);
    call->root = (int)draw_below(&draw, (size_t)setting->size);
    if (call->kind == ALL_REDUCE) draw_all_reduce(&draw, setting, call);
    if (call->kind == BROADCAST) call->count = draw_count(&draw, setting, call, (size_t)setting->size);
    if (call->kind == ALL_GATHER || call->kind == REDUCE_SCATTER) draw_parts(&draw, setting, call);
    call_describe(setting, call);
}

/* ---- answers ---- */

static int leaf_count(const struct setting *setting, const struct call *call) {
    if (call->kind == BARRIER || call->kind == SHARE) return 0;
    return call->kind == ALL_REDUCE ? call->first[setting->size] : setting->size;
}

/* Nothing is rounded in memory; a host's partial results are rounded together where it exchanges as one. */
static void expect_rounding(const struct setting *setting, const struct call *call, struct oracle *oracle) {
    bool in_memory = call->communication == LS_AUTO && is_one_host(setting) &&
                     (!setting->algorithm || setting->algorithm == LS_ALGORITHM_SHARED);
    if (in_memory || setting->size == 1) return;
    oracle->compression = call->compression;
    bool together = !setting->algorithm || setting->algorithm == LS_ALGORITHM_TWO_LEVEL;
    if (call->communication == LS_AUTO && is_mixed(setting) && together) oracle->hosts = setting->hosts;
}

void answers_prepare(struct answers *answers, const struct setting *setting, const struct call *call) {
    size_t bytes = call->count * ls_dtype_size(call->dtype);
    int leaves = leaf_count(setting, call), flat[MOST_RANKS + 1];
    answers_free(answers);
    answers->expected = malloc(bytes + 1);
    for (int i = 0; i < leaves; i++) {
        answers->leaves[i] = malloc(bytes + 1);
        if (!answers->leaves[i] || !answers->expected) trial_fail("no memory");
        oracle_fill(call->dtype, answers->leaves[i], call->count, (call->seed + call->number) * 32 + (uint64_t)i);
    }
    for (int i = 0; i <= setting->size; i++) flat[i] = i;
    struct oracle oracle = {.communication = call->communication,
                            .op = call->op,
                            .dtype = call->dtype,
                            .count = call->count,
                            .size = setting->size,
                            .first = call->kind == ALL_REDUCE ? call->first : flat,
                            .scatter = call->kind == REDUCE_SCATTER ? call->counts : NULL};
    expect_rounding(setting, call, &oracle);
    if (call->kind == ALL_REDUCE || call->kind == REDUCE_SCATTER)
        oracle_all_reduce(&oracle, answers->leaves, answers->expected);
}

void answers_free(struct answers *answers) {
    for (int i = 0; i < MOST_LEAVES; i++) free(answers->leaves[i]);
    free(answers->expected);
    *answers = (struct answers){0};
}
