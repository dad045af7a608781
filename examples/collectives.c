/* Bare collectives, in Horovod's vocabulary, for people who bring their own compute: rank, size, all-reduce, broadcast,
 * all-gather, barrier. Start it with lockstep run -np N, or once per task with a TF_CONFIG. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

static ls_status talk(ls_communicator *world) {
    int rank = ls_rank(world), size = ls_size(world);
    float mine[4] = {(float)rank, (float)rank + 0.5F, 1, -1}, sum[4];
    double setting = rank == 0 ? 3.25 : 0;
    ls_status st = ls_all_reduce(world, LS_ALL_REDUCE("numbers", mine, sum, 4));
    if (!st) st = ls_broadcast(world, LS_BROADCAST("setting", &setting, 1, LS_FLOAT64));
    if (st) return st;
    size_t *counts = calloc((size_t)size, sizeof(*counts));
    int64_t *ranks = calloc((size_t)size, sizeof(*ranks)), own = rank;
    for (int i = 0; counts && i < size; i++) counts[i] = 1;
    st = counts && ranks ? ls_all_gather(world, LS_ALL_GATHER("ranks", &own, ranks, counts, LS_INT64))
                         : LS_RESOURCE_EXHAUSTED;
    if (!st) st = ls_barrier(world, "before printing");
    if (!st)
        (void)printf("rank %d of %d (local %d of %d): sum %g %g %g %g, setting %g, last rank %lld\n", rank, size,
                     ls_local_rank(world), ls_local_size(world), (double)sum[0], (double)sum[1], (double)sum[2],
                     (double)sum[3], setting, (long long)ranks[size - 1]);
    free(counts);
    free(ranks);
    return st;
}

int main(void) {
    ls_communicator *world = NULL;
    ls_status st = ls_communicator_new(NULL, &world);
    if (st) return ls_exit(st);
    return ls_exit(ls_communicator_close(world, talk(world)));
}
