/* Starts, joins, adds one vector of 4 KB over all processes, waits HOLD seconds and ends, for bench/start.
 *
 * usage: mpi_start HOLD */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static float vector[1024];
    int size, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 1024; i++) vector[i] = 1;
    MPI_Allreduce(MPI_IN_PLACE, vector, 1024, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 1024; i++) wrong += vector[i] != (float)size;
    if (wrong) fprintf(stderr, "mpi_start: %d elements of the sum are wrong\n", wrong);
    if (argc > 1) (void)usleep((useconds_t)(atof(argv[1]) * 1e6));
    MPI_Finalize();
    return wrong != 0;
}
