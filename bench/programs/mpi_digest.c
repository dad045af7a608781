/* Digests of MPI_Allreduce (float32, sum): one JSON object {bytes: [digest of each cut]}, for bench/digest.
 *
 * usage: mpi_digest BYTES,... PIECES,...
 *
 * A cut adds the same vector in so many pieces, as buckets do. The digest is FNV-1a of 64 bits. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64 };

static int read_list(char *text, long *list) {
    int count = 0;
    for (; *text && count < MOST; text += *text == ',') list[count++] = strtol(text, &text, 10);
    return count;
}

/* Values of both signs and of many sizes, so that the order of addition shows. */
static void fill(float *vector, int count, uint64_t rank) {
    uint64_t state = rank + 1;
    for (int i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        vector[i] = (float)((double)(int64_t)state / 0x1p63 * (double)(1 << (state >> 20 & 15)));
    }
}

static uint64_t digest(float *vector, int count, int pieces, int rank) {
    const unsigned char *bytes = (const unsigned char *)vector;
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    fill(vector, count, (uint64_t)rank);
    for (int piece = 0; piece < pieces; piece++) {
        int begin = (int)((long)count * piece / pieces), end = (int)((long)count * (piece + 1) / pieces);
        if (MPI_Allreduce(MPI_IN_PLACE, vector + begin, end - begin, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (size_t i = 0; i < (size_t)count * sizeof(*vector); i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    return hash;
}

int main(int argc, char **argv) {
    long sizes[MOST], cuts[MOST];
    int rank;
    if (argc != 3) return 2;
    int size_count = read_list(argv[1], sizes), cut_count = read_list(argv[2], cuts);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < size_count; i++) {
        float *vector = malloc((size_t)sizes[i] + sizeof(*vector));
        if (!vector) MPI_Abort(MPI_COMM_WORLD, 1);
        if (!rank) printf("%s\"%ld\": [", i ? ", " : "{", sizes[i]);
        for (int cut = 0; cut < cut_count; cut++) {
            uint64_t hash = digest(vector, (int)(sizes[i] / (long)sizeof(*vector)), (int)cuts[cut], rank);
            if (!rank) printf("%s\"%016llx\"", cut ? ", " : "", (unsigned long long)hash);
        }
        if (!rank) printf("]");
        free(vector);
    }
    if (!rank) printf("}\n");
    MPI_Finalize();
    return 0;
}
