/* Every collective, type and operation of the public API beside tests/golden/collectives.txt, with which the Python
 * package is compared too (tests/python/table.py). collectives.py has the rules of what each rank gives. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "harness.h"
#include "runtime/communicators.h"

enum { DIGITS = 10, COUNTS = 4, KINDS = 4, MOST = 2048 * sizeof(double) }; /* bytes of one part */
static const size_t counts_of_table[COUNTS] = {0, 1, 7, 1000};
static const char *const transports[] = {"shm", "tcp"};
static const char *const types[] = {"float32", "float64", "float16", "bfloat16", "int32",
                                    "int64",   "uint8",   "int8",    "bool",     NULL};
static const char *const operations[] = {"sum", "mean", "min", "max", "product", "-", NULL};
static const ls_reduce_op codes[] = {LS_SUM, LS_MEAN, LS_MIN, LS_MAX, LS_PRODUCT, LS_SUM};

struct row {
    char collective[16];
    ls_dtype dtype;
    int operation;
    char digests[MAX_MEMBERS][DIGITS + 1]; /* by the number of ranks, less one */
};
struct bytes {
    unsigned char *data;
    size_t size;
};

static int place_of(const char *const names[], const char *name) {
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], name)) return i;
    ck_abort_msg("the table has '%s'", name);
}

static bool read_row(FILE *file, struct row *row) {
    char line[256], type[16], operation[16];
    do
        if (!fgets(line, sizeof(line), file)) return false;
    while (line[0] == '#');
    ck_assert_int_eq(sscanf(line, "%15s %15s %15s %10s %10s %10s %10s %10s %10s %10s %10s", row->collective, type,
                            operation, row->digests[0], row->digests[1], row->digests[2], row->digests[3],
                            row->digests[4], row->digests[5], row->digests[6], row->digests[7]),
                     3 + MAX_MEMBERS);
    row->dtype = (ls_dtype)place_of(types, type);
    row->operation = place_of(operations, operation);
    return true;
}

/* ---- numbers ---- */

static int number_of(const struct row *row, int ranks, int rank, size_t i) {
    if (codes[row->operation] == LS_PRODUCT) return 1 + ((i + (size_t)rank) % 3 == 0);
    int least = row->dtype == LS_UINT8 || row->dtype == LS_BOOL ? 0 : -2;
    int number = ((int)((7 * i + 13 * (size_t)rank) % 5) + least) * (codes[row->operation] == LS_MEAN ? ranks : 1);
    return row->dtype == LS_BOOL ? number % 2 : number;
}

static void encode(ls_dtype dtype, int number, void *to) {
    float as_float = (float)number;
    double as_double = number;
    uint16_t half = dtype == LS_FLOAT16 ? ls_half_from_float(as_float) : ls_half_bfloat16_from_float(as_float);
    int64_t wide = number;
    unsigned char narrow = dtype == LS_BOOL ? number != 0 : (unsigned char)number;
    const void *const forms[] = {&as_float, &as_double, &half, &half, &number, &wide, &narrow, &narrow, &narrow};
    memcpy(to, forms[dtype], ls_dtype_size(dtype));
}

static void append_numbers(struct bytes *to, const struct row *row, int ranks, int rank, size_t count) {
    size_t width = ls_dtype_size(row->dtype);
    for (size_t i = 0; i < count; i++, to->size += width)
        encode(row->dtype, number_of(row, ranks, rank, i), to->data + to->size);
}

static void append(struct bytes *to, const void *data, size_t size) {
    if (size) memcpy(to->data + to->size, data, size);
    to->size += size;
}

/* ---- collectives: each appends what this rank receives ---- */

typedef ls_status call_fn(struct member *member, const struct row *row, size_t count, const void *input,
                          struct bytes *output);

static ls_status all_reduce(struct member *member, const struct row *row, size_t count, const void *input,
                            struct bytes *output) {
    void *to = output->data + output->size;
    output->size += count * ls_dtype_size(row->dtype);
    return ls_all_reduce(member->communicator,
                         LS_ALL_REDUCE("table", input, to, count, row->dtype, codes[row->operation]));
}

static ls_status reduce_scatter(struct member *member, const struct row *row, size_t count, const void *input,
                                struct bytes *output) {
    size_t counts[MAX_MEMBERS];
    ls_status status = ls_split_counts(count, member->size, counts);
    void *to = output->data + output->size;
    output->size += counts[member->rank] * ls_dtype_size(row->dtype);
    return status ? status
                  : ls_reduce_scatter(member->communicator,
                                      LS_REDUCE_SCATTER("table", input, to, counts, row->dtype, codes[row->operation]));
}

static ls_status broadcast(struct member *member, const struct row *row, size_t count, const void *input,
                           struct bytes *output) {
    void *to = output->data + output->size;
    append(output, input, count * ls_dtype_size(row->dtype));
    return ls_broadcast(member->communicator,
                        LS_BROADCAST("table", to, count, row->dtype, .root = (int)count % member->size));
}

static ls_status all_gather(struct member *member, const struct row *row, size_t count, const void *input,
                            struct bytes *output) {
    size_t counts[MAX_MEMBERS];
    for (int i = 0; i < member->size; i++) counts[i] = count;
    void *to = output->data + output->size;
    output->size += (size_t)member->size * count * ls_dtype_size(row->dtype);
    return ls_all_gather(member->communicator, LS_ALL_GATHER("table", input, to, counts, row->dtype));
}

static ls_status append_made(const struct row *row, const size_t *counts, int size, void *made, struct bytes *output) {
    size_t count = 0;
    for (int i = 0; i < size; i++) count += counts[i];
    append(output, made, count * ls_dtype_size(row->dtype));
    ls_memory_free(made);
    return LS_OK;
}

static ls_status ragged(struct member *member, const struct row *row, size_t count, const void *input,
                        struct bytes *output) {
    (void)input;
    unsigned char numbers[MOST];
    struct bytes own = {.data = numbers};
    size_t counts[MAX_MEMBERS], mine = count + (size_t)member->rank;
    void *made = NULL;
    append_numbers(&own, row, member->size, member->rank, mine);
    ls_status status =
        ls_all_gather(member->communicator, LS_ALL_GATHER("table", own.data, .dtype = row->dtype, .count = mine,
                                                          .allocated = &made, .received = counts));
    return status ? status : append_made(row, counts, member->size, made, output);
}

static ls_status all_to_all(struct member *member, const struct row *row, size_t count, const void *input,
                            struct bytes *output) {
    (void)input;
    struct bytes own = {.data = malloc((size_t)member->size * MOST)};
    size_t counts[MAX_MEMBERS], received[MAX_MEMBERS];
    void *made = NULL;
    ck_assert_ptr_nonnull(own.data);
    for (int to = 0; to < member->size; to++) {
        counts[to] = count + (size_t)member->rank * (size_t)to;
        append_numbers(&own, row, member->size, member->rank + 3 * to, counts[to]);
    }
    ls_status status =
        ls_all_to_all(member->communicator, LS_ALL_TO_ALL("table", own.data, counts, &made, received, row->dtype));
    free(own.data);
    return status ? status : append_made(row, received, member->size, made, output);
}

static const char *const collectives[] = {"all_reduce", "reduce_scatter", "broadcast", "all_gather",
                                          "ragged",     "all_to_all",     NULL};
static call_fn *const calls[] = {all_reduce, reduce_scatter, broadcast, all_gather, ragged, all_to_all};

/* ---- rows ---- */

static ls_status make_calls(struct member *member, const struct row *row, struct bytes *output) {
    unsigned char numbers[1024 * sizeof(double)];
    ls_status status = LS_OK;
    for (int i = 0; i < COUNTS && !status; i++) {
        struct bytes input = {.data = numbers};
        append_numbers(&input, row, member->size, member->rank, counts_of_table[i]);
        status = calls[place_of(collectives, row->collective)](member, row, counts_of_table[i], numbers, output);
    }
    return status;
}

/* Of the outputs of all ranks. */
static ls_status compare(struct member *member, const struct row *row, const struct bytes *output) {
    void *all = NULL;
    size_t sizes[MAX_MEMBERS], size = 0;
    char hex[65];
    ls_status status =
        ls_all_gather(member->communicator, LS_ALL_GATHER("outputs", output->data, .dtype = LS_UINT8,
                                                          .count = output->size, .allocated = &all, .received = sizes));
    if (status) return status;
    for (int i = 0; i < member->size; i++) size += sizes[i];
    assert_ok(ls_tools_sha256(all, size, hex));
    hex[DIGITS] = '\0';
    ck_assert_msg(!strcmp(hex, row->digests[member->size - 1]), "%s of %s, %s, %d ranks by %s: %s, not %s",
                  row->collective, types[row->dtype], operations[row->operation], member->size,
                  ls_communicator_transport(member->communicator), hex, row->digests[member->size - 1]);
    ls_memory_free(all);
    return LS_OK;
}

static ls_status try_rows(struct member *member) {
    FILE *file = fopen(COLLECTIVES_GOLDEN, "r");
    struct row row;
    int rows = 0;
    ls_status status = LS_OK;
    ck_assert_ptr_nonnull(file);
    for (; !status && read_row(file, &row); rows++) {
        struct bytes output = {.data = malloc((size_t)MAX_MEMBERS * COUNTS * MOST)};
        ck_assert_ptr_nonnull(output.data);
        status = make_calls(member, &row, &output);
        if (!status) status = compare(member, &row, &output);
        free(output.data);
    }
    (void)fclose(file);
    if (!status) ck_assert_int_gt(rows, 100);
    return status;
}

/* Every number of ranks, and with each another transport and communication. */
TEST_EACH(every_row_has_its_digest, SANITIZED ? MAX_MEMBERS / 2 : MAX_MEMBERS) {
    int kind = _i % KINDS;
    const struct members_options options = {
        .size = _i + 1, .transport = transports[kind % 2], .communication = kind < 2 ? LS_AUTO : LS_RING};
    members_run_ok(&options, try_rows, NULL);
}

TESTS("runtime/table", .seconds = 120)
