/* A kernel's threads on the CPU, one block after the other. Threads that meet have a stack each and are run in turns:
 * up and down alternately, so that who forgets to meet is found. All of it happens in one thread at a time. */
#pragma once
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The place of the running thread. */
struct ls_emulated_here {
    uint3 thread, block;
    dim3 block_size, grid_size;
    void *shared; /* dynamic shared memory */
};
extern struct ls_emulated_here ls_emulated_here;

struct ls_emulated_grid {
    dim3 grid, block;
    size_t bytes; /* of dynamic shared memory */
    bool meets;   /* launched with LS_LAUNCH_SYNC */
};
typedef void ls_emulated_thread_fn(void *work);

/* The answer to a launch of that grid. */
cudaError_t ls_emulated_check_grid(const struct ls_emulated_grid *grid, cudaStream_t stream);
/* Runs thread(work) for each thread of each block. */
void ls_emulated_run_blocks(const struct ls_emulated_grid *grid, ls_emulated_thread_fn *thread, void *work);

/* For threads: */
int ls_emulated_lane(void); /* 0 to 31 */
void ls_emulated_meet_block(void);
int ls_emulated_count_block(bool value); /* meets; of how many value is true */
/* Meets the other lanes of mask; gives the value that the source lane brought. */
uint64_t ls_emulated_meet_warp(unsigned mask, uint64_t value, int source);
unsigned ls_emulated_ballot(unsigned mask, bool value);

#ifdef __cplusplus
}
#endif
