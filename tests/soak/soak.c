/* One rank of a soak: collectives of random kind, type, size and memory, the same on every rank, each checked; until
 * the time is over. Values are small whole numbers, so that every order of addition gives the same. From time to time
 * it compares its descriptors, threads and memory with what it had when it was warm: growth is a leak.
 *
 * usage: soak SECONDS SEED   (under lockstep run) */
#include <dirent.h>
#include <malloc.h>
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_BYTES = 8 << 20,
    CHECK_EVERY = 500,
    ALLOWED_GROWTH = 16 << 20, /* bytes of memory: scratch grows until the largest call has come */
    ALLOWED_THREADS = 8        /* gRPC's come and go */
};

struct soak {
    ls_communicator *communicator;
    int rank, size;
    uint64_t state; /* of the random numbers; equal on every rank */
    unsigned char *private_memory[2], *shared;
    size_t *counts;
    long calls;
    int descriptors, threads; /* when warm */
    size_t memory;
};

struct call {
    ls_dtype dtype;
    ls_reduce_op op;
    size_t count;
    bool in_place, shared;
    unsigned salt;
};

static uint64_t draw(struct soak *soak, uint64_t limit) {
    soak->state ^= soak->state << 13;
    soak->state ^= soak->state >> 7;
    soak->state ^= soak->state << 17;
    return (soak->state >> 11) % limit;
}

/* ---- values ---- */

static unsigned float16_bits(int value) { /* whole numbers from 0 to 2048 are exact */
    int exponent = 0;
    if (!value) return 0;
    while (value >> (exponent + 1)) exponent++;
    unsigned fraction = exponent <= 10 ? (unsigned)value << (10 - exponent) : (unsigned)value >> (exponent - 10);
    return (unsigned)(exponent + 15) << 10 | (fraction & 0x3FF);
}

static void put(ls_dtype dtype, unsigned char *to, size_t index, int value) {
    float single = (float)value;
    unsigned bits;
    memcpy(&bits, &single, sizeof(bits));
    switch (dtype) {
    case LS_FLOAT32:
        ((float *)(void *)to)[index] = single;
        break;
    case LS_FLOAT64:
        ((double *)(void *)to)[index] = value;
        break;
    case LS_FLOAT16:
        ((uint16_t *)(void *)to)[index] = (uint16_t)float16_bits(value);
        break;
    case LS_BFLOAT16:
        ((uint16_t *)(void *)to)[index] = (uint16_t)(bits >> 16);
        break;
    case LS_INT32:
        ((int32_t *)(void *)to)[index] = value;
        break;
    default:
        ((int64_t *)(void *)to)[index] = value;
    }
}

/* The value that a rank gives. It is at most 7, so that the sum over 16 ranks is exact in every type. */
static int given(const struct call *call, int rank, size_t index) {
    return (int)((index * 2654435761u + call->salt + (unsigned)rank * 40503u) >> 5 & 7);
}

static int expected(const struct call *call, int size, size_t index) {
    int result = given(call, 0, index);
    for (int rank = 1; rank < size; rank++) {
        int value = given(call, rank, index);
        if (call->op == LS_SUM) result += value;
        if (call->op == LS_MIN && value < result) result = value;
        if (call->op == LS_MAX && value > result) result = value;
    }
    return result;
}

static void fail(const struct soak *soak, const struct call *call, const char *what, size_t index) {
    (void)fprintf(stderr, "soak: rank %d, call %ld: %s of %zu x %s (op %d, in place %d, shared %d) differs at %zu\n",
                  soak->rank, soak->calls, what, call->count, ls_dtype_name(call->dtype), call->op, call->in_place,
                  call->shared, index);
    exit(1);
}

static void compare(const struct soak *soak, const struct call *call, const char *what, const unsigned char *got,
                    size_t index, int value) {
    unsigned char want[8] = {0};
    size_t width = ls_dtype_size(call->dtype);
    put(call->dtype, want, 0, value);
    if (memcmp(got + index * width, want, width) != 0) fail(soak, call, what, index);
}

/* ---- one call ---- */

/* Elements: of any number of bytes, or about where a piece of 64 KiB ends. */
static size_t draw_count(struct soak *soak, size_t element) {
    size_t most = (size_t)1 << draw(soak, 24);
    if (draw(soak, 4)) return draw(soak, most < MAX_BYTES ? most : MAX_BYTES) / element;
    return (1 + draw(soak, 24)) * 65536 / element + draw(soak, 33) - 16;
}

static struct call draw_call(struct soak *soak) {
    struct call call = {.dtype = (ls_dtype)draw(soak, 6), .salt = (unsigned)draw(soak, 1 << 30)};
    static const ls_reduce_op ops[] = {LS_SUM, LS_SUM, LS_MIN, LS_MAX};
    call.op = ops[draw(soak, 4)];
    call.in_place = draw(soak, 2);
    call.shared = draw(soak, 2);
    call.count = draw_count(soak, ls_dtype_size(call.dtype));
    return call;
}

static ls_status all_reduce(struct soak *soak, const struct call *call) {
    unsigned char *output = call->shared ? soak->shared : soak->private_memory[0];
    unsigned char *input = call->in_place ? output : soak->private_memory[1];
    for (size_t i = 0; i < call->count; i++) put(call->dtype, input, i, given(call, soak->rank, i));
    ls_status status = ls_all_reduce(soak->communicator,
                                     LS_ALL_REDUCE("soak reduce", input, output, call->count, call->dtype, call->op));
    for (size_t i = 0; i < call->count && !status; i++)
        compare(soak, call, "all-reduce", output, i, expected(call, soak->size, i));
    return status;
}

static ls_status broadcast(struct soak *soak, const struct call *call) {
    unsigned char *data = call->shared ? soak->shared : soak->private_memory[0];
    int root = (int)(call->salt % (unsigned)soak->size);
    for (size_t i = 0; i < call->count; i++) put(call->dtype, data, i, given(call, soak->rank, i));
    ls_status status =
        ls_broadcast(soak->communicator, LS_BROADCAST("soak broadcast", data, call->count, call->dtype, root));
    for (size_t i = 0; i < call->count && !status; i++) compare(soak, call, "broadcast", data, i, given(call, root, i));
    return status;
}

/* Uneven parts, some of nothing; returns where this rank's begins, *end receives where the last one ends. */
static size_t lay_out_parts(struct soak *soak, const struct call *call, size_t *end) {
    size_t start = 0, part = call->count / (size_t)soak->size;
    *end = 0;
    for (int rank = 0; rank < soak->size; rank++) {
        soak->counts[rank] = (call->salt >> rank & 3) == 0 ? 0 : part - part * (call->salt >> rank & 3) / 4;
        if (rank < soak->rank) start += soak->counts[rank];
        *end += soak->counts[rank];
    }
    return start;
}

static ls_status reduce_scatter(struct soak *soak, const struct call *call) {
    unsigned char *input = call->shared ? soak->shared : soak->private_memory[0], *output = soak->private_memory[1];
    size_t total, start = lay_out_parts(soak, call, &total);
    if (call->in_place) output = input + start * ls_dtype_size(call->dtype);
    for (size_t i = 0; i < total; i++) put(call->dtype, input, i, given(call, soak->rank, i));
    ls_status status = ls_reduce_scatter(
        soak->communicator, LS_REDUCE_SCATTER("soak scatter", input, output, soak->counts, call->dtype, call->op));
    for (size_t i = 0; i < soak->counts[soak->rank] && !status; i++)
        compare(soak, call, "reduce-scatter", output, i, expected(call, soak->size, start + i));
    return status;
}

static ls_status all_gather(struct soak *soak, struct call *call) {
    unsigned char *output = call->shared ? soak->shared : soak->private_memory[0], *input = soak->private_memory[1];
    size_t total, start = lay_out_parts(soak, call, &total);
    if (call->in_place) input = output + start * ls_dtype_size(call->dtype);
    for (size_t i = 0; i < soak->counts[soak->rank]; i++) put(call->dtype, input, i, given(call, soak->rank, i));
    ls_status status =
        ls_all_gather(soak->communicator, LS_ALL_GATHER("soak gather", input, output, soak->counts, call->dtype));
    size_t at = 0;
    for (int rank = 0; rank < soak->size && !status; rank++)
        for (size_t i = 0; i < soak->counts[rank]; i++)
            compare(soak, call, "all-gather", output, at++, given(call, rank, i));
    return status;
}

/* Memory that ranks share comes and goes. */
static ls_status renew(struct soak *soak) {
    void *memory;
    ls_communicator_release(soak->communicator, soak->shared);
    soak->shared = NULL;
    ls_status status = ls_communicator_allocate(soak->communicator, MAX_BYTES, &memory);
    if (!status) soak->shared = memory;
    return status;
}

static ls_status one_call(struct soak *soak) {
    struct call call = draw_call(soak);
    uint64_t kind = draw(soak, 64);
    soak->calls++;
    if (kind == 0) return renew(soak);
    if (kind < 4) return ls_barrier(soak->communicator, "soak barrier");
    if (kind < 12) return broadcast(soak, &call);
    if (kind < 20) return all_gather(soak, &call);
    if (kind < 28) return reduce_scatter(soak, &call);
    return all_reduce(soak, &call);
}

/* ---- leaks ---- */

static int count_entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    while (folder && readdir(folder)) count++;
    if (folder) (void)closedir(folder);
    return count;
}

/* Bytes of the heap that are in use; what the process has beside them changes with the order in which threads free. */
static size_t used_memory(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void check_leaks(struct soak *soak) {
    int descriptors = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    size_t memory = used_memory();
    if (soak->calls == CHECK_EVERY) {
        soak->descriptors = descriptors;
        soak->threads = threads;
        soak->memory = memory;
    }
    if (descriptors <= soak->descriptors && threads <= soak->threads + ALLOWED_THREADS &&
        memory <= soak->memory + ALLOWED_GROWTH)
        return;
    (void)fprintf(stderr, "soak: rank %d, call %ld: %d descriptors (%d), %d threads (%d), %zu bytes (%zu): it leaks\n",
                  soak->rank, soak->calls, descriptors, soak->descriptors, threads, soak->threads, memory,
                  soak->memory);
    exit(1);
}

/* ---- the whole ---- */

/* *over is true if the chief's clock says so. It is the same on every rank. */
static ls_status is_over(struct soak *soak, time_t end, int32_t *over) {
    *over = time(NULL) >= end;
    return ls_broadcast(soak->communicator, LS_BROADCAST("soak over", over, 1, LS_INT32));
}

static ls_status run(struct soak *soak, time_t end) {
    int32_t over = 0;
    ls_status status = renew(soak);
    while (!status && !over) {
        status = one_call(soak);
        if (status || soak->calls % CHECK_EVERY) continue;
        check_leaks(soak);
        status = is_over(soak, end, &over);
    }
    return status;
}

int main(int argc, char **argv) {
    if (argc != 3) return fputs("usage: soak SECONDS SEED\n", stderr), 2;
    struct soak soak = {.state = strtoull(argv[2], NULL, 10) * 2 + 1};
    time_t end = time(NULL) + strtol(argv[1], NULL, 10);
    ls_communication communication = soak.state >> 1 & 4 ? LS_RING : LS_AUTO;
    ls_status status = ls_communicator_new(LS_STRATEGY(.communication = communication), &soak.communicator);
    if (status) return ls_exit(status);
    soak.rank = ls_rank(soak.communicator);
    soak.size = ls_size(soak.communicator);
    soak.counts = calloc((size_t)soak.size, sizeof(size_t));
    for (int i = 0; i < 2; i++) soak.private_memory[i] = calloc(1, MAX_BYTES);
    if (!soak.counts || !soak.private_memory[0] || !soak.private_memory[1]) return 1;
    for (int i = 0; i < 2; i++) memset(soak.private_memory[i], 1, MAX_BYTES); /* every page is there */
    status = run(&soak, end);
    if (!status && !soak.rank) (void)printf("soak: %d ranks, %ld calls, all right\n", soak.size, soak.calls);
    ls_communicator_release(soak.communicator, soak.shared);
    for (int i = 0; i < 2; i++) free(soak.private_memory[i]);
    free(soak.counts);
    return ls_exit(ls_communicator_close(soak.communicator, status));
}
