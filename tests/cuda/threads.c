/* Blocks of threads. A thread that meets others has a stack of its own and goes on when they have come: the lanes of
 * its warp for a shuffle, all warps for __syncthreads. Threads that can never meet end the process, saying which. */
#define _GNU_SOURCE
#include "threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulated.h"

#ifndef __x86_64__
#error "the emulation's switch of stacks is written for x86-64"
#endif

#define WARP         32
#define MOST_THREADS 1024
#define STACK        (64 * 1024)  /* bytes, of which the lowest page is not there */
#define PAGE         4096         /* bytes */
#define MOST_SHARED  (227 * 1024) /* bytes; sm_90's */
#define USUAL_SHARED (48 * 1024)  /* bytes, without cudaFuncSetAttribute, which no kernel asks for */

enum state { RUNS, MEETS_WARP, MEETS_BLOCK, DONE };
struct lane {
    void *stack_pointer;
    enum state state;
    unsigned mask, joined; /* who should come to a shuffle, and who came */
    bool voted;
    uint64_t brought, seen; /* seen by the others: brought, when the last of the mask had come */
};

struct ls_emulated_here ls_emulated_here;
/* The block that runs now; there is one at a time. */
static struct {
    struct lane *lanes;
    char *stacks, *shared;
    void *scheduler; /* its stack pointer */
    int count, now;
    int votes; /* of the last meeting of the block */
    bool meets, downwards;
    ls_emulated_thread_fn *thread;
    void *work;
} block;

/* Pushes what a callee must keep, stores the stack pointer in *save and goes on where load was stored. */
void ls_emulated_switch(void **save, void *load);
__asm__(".text\n.globl ls_emulated_switch\n.hidden ls_emulated_switch\n.type ls_emulated_switch,@function\n"
        "ls_emulated_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size ls_emulated_switch, .-ls_emulated_switch\n");

static _Noreturn void die(const char *what) {
    const struct ls_emulated_here *here = &ls_emulated_here;
    (void)fprintf(stderr, "emulated GPU: %s (block %u,%u,%u thread %u,%u,%u)\n", what, here->block.x, here->block.y,
                  here->block.z, here->thread.x, here->thread.y, here->thread.z);
    abort();
}

static void *map(size_t size, int protection) {
    void *memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) die("no memory for stacks");
    return memory;
}

static void prepare(void) {
    if (block.lanes) return;
    block.lanes = map(MOST_THREADS * sizeof(struct lane), PROT_READ | PROT_WRITE);
    block.shared = map(MOST_SHARED, PROT_READ | PROT_WRITE);
    block.stacks = map((size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE);
    for (int i = 0; i < MOST_THREADS; i++)
        if (mprotect(block.stacks + (size_t)i * STACK, PAGE, PROT_NONE)) die("no guard page");
}

static void name_thread(int index) {
    const dim3 *size = &ls_emulated_here.block_size;
    unsigned at = (unsigned)index;
    block.now = index;
    ls_emulated_here.thread = (uint3){at % size->x, at / size->x % size->y, at / size->x / size->y};
}

/* ---- threads that meet ---- */

/* It never returns: marks of a sanitizer around what it has would stay on the stack. */
__attribute__((no_sanitize("address"))) static void begin_thread(void) {
    block.thread(block.work);
    block.lanes[block.now].state = DONE;
    void *never;
    ls_emulated_switch(&never, block.scheduler);
    die("a thread that has ended goes on");
}

static void make_stack(int index) {
    void **top = (void **)(void *)(block.stacks + (size_t)(index + 1) * STACK);
    *--top = NULL; /* begin_thread's return address: it has none. The stack is aligned as after a call */
    *--top = (void *)begin_thread;
    for (int i = 0; i < 6; i++) *--top = NULL;
    block.lanes[index].stack_pointer = top;
    block.lanes[index].state = RUNS;
}

/* Back to the scheduler, until it lets this thread go on. */
static void pause_as(enum state state) {
    struct lane *lane = &block.lanes[block.now];
    if (!block.meets) die("threads meet in a kernel that was launched with LS_LAUNCH");
    lane->state = state;
    ls_emulated_switch(&lane->stack_pointer, block.scheduler);
}

static void run_lane(int index) {
    name_thread(index);
    ls_emulated_switch(&block.scheduler, block.lanes[index].stack_pointer);
}

/* True if all remaining lanes of the mask have come. They then have each other's values. */
static bool release(struct lane *warp, int lanes, int index) {
    unsigned mask = warp[index].mask;
    for (int i = 0; i < lanes; i++)
        if (mask >> i & 1 && warp[i].state != DONE && (warp[i].state != MEETS_WARP || warp[i].mask != mask))
            return false;
    unsigned joined = 0;
    for (int i = 0; i < lanes; i++)
        if (mask >> i & 1 && warp[i].state != DONE) joined |= 1U << i;
    for (int i = 0; i < lanes; i++) {
        if (!(joined >> i & 1)) continue;
        warp[i].seen = warp[i].brought, warp[i].joined = joined;
        warp[i].state = RUNS;
    }
    return true;
}

static bool run_lanes_once(struct lane *warp, int first, int lanes) {
    bool ran = false;
    for (int i = 0; i < lanes; i++) {
        int lane = block.downwards ? lanes - 1 - i : i;
        if (warp[lane].state != RUNS) continue;
        run_lane(first + lane);
        ran = true;
    }
    return ran;
}

/* Until every lane is done or meets the block. */
static void run_warp(int first, int lanes) {
    struct lane *warp = &block.lanes[first];
    for (bool goes_on = true; goes_on;) {
        goes_on = run_lanes_once(warp, first, lanes);
        for (int i = 0; i < lanes; i++)
            if (warp[i].state == MEETS_WARP) goes_on |= release(warp, lanes, i);
    }
    for (int i = 0; i < lanes; i++) {
        if (warp[i].state != MEETS_WARP) continue;
        name_thread(first + i);
        die("lanes wait in a shuffle for others that do not come");
    }
}

/* True if any thread is left. All of them have met then. */
static bool release_block(void) {
    int left = 0;
    block.votes = 0;
    for (int i = 0; i < block.count; i++) {
        if (block.lanes[i].state == DONE) continue;
        block.lanes[i].state = RUNS;
        block.votes += block.lanes[i].voted;
        left++;
    }
    return left > 0;
}

static void run_meeting_block(void) {
    int warps = (block.count + WARP - 1) / WARP;
    for (int i = 0; i < block.count; i++) make_stack(i);
    do {
        for (int i = 0; i < warps; i++) {
            int first = (block.downwards ? warps - 1 - i : i) * WARP;
            run_warp(first, block.count - first < WARP ? block.count - first : WARP);
        }
    } while (release_block());
}

/* ---- blocks ---- */

static void run_block(size_t bytes) {
    memset(block.shared, 0xFF, bytes); /* no numbers */
    if (block.meets) {
        run_meeting_block();
        return;
    }
    for (int i = 0; i < block.count; i++) {
        name_thread(block.downwards ? block.count - 1 - i : i);
        block.thread(block.work);
    }
}

void ls_emulated_run_blocks(const struct ls_emulated_grid *grid, ls_emulated_thread_fn *thread, void *work) {
    prepare();
    block.thread = thread, block.work = work, block.meets = grid->meets;
    block.count = (int)(grid->block.x * grid->block.y * grid->block.z);
    ls_emulated_here.grid_size = grid->grid, ls_emulated_here.block_size = grid->block;
    ls_emulated_here.shared = block.shared;
    size_t blocks = (size_t)grid->grid.x * grid->grid.y * grid->grid.z;
    bool backwards = block.downwards; /* every other launch has its last block first */
    for (size_t i = 0; i < blocks; i++) {
        size_t at = backwards ? blocks - 1 - i : i;
        ls_emulated_here.block = (uint3){(unsigned)(at % grid->grid.x), (unsigned)(at / grid->grid.x % grid->grid.y),
                                         (unsigned)(at / grid->grid.x / grid->grid.y)};
        block.downwards = !block.downwards;
        run_block(grid->bytes);
    }
    block.downwards = !backwards;
}

cudaError_t ls_emulated_check_grid(const struct ls_emulated_grid *grid, cudaStream_t stream) {
    const dim3 *blocks = &grid->grid, *threads = &grid->block;
    ls_emulated_lock();
    cudaError_t error = ls_emulated_check_stream(stream, true);
    ls_emulated_unlock();
    if (error != cudaSuccess) return error;
    if (!blocks->x || !blocks->y || !blocks->z || blocks->x > 0x7FFFFFFFU || blocks->y > 65535 || blocks->z > 65535)
        return cudaErrorInvalidConfiguration;
    if (!threads->x || !threads->y || !threads->z || threads->z > 64 ||
        (uint64_t)threads->x * threads->y * threads->z > MOST_THREADS)
        return cudaErrorInvalidConfiguration;
    return grid->bytes > USUAL_SHARED ? cudaErrorInvalidValue : cudaSuccess;
}

/* ---- for threads ---- */

int ls_emulated_lane(void) {
    return block.now % WARP;
}

int ls_emulated_count_block(bool value) {
    block.lanes[block.now].voted = value;
    pause_as(MEETS_BLOCK);
    return block.votes;
}

void ls_emulated_meet_block(void) {
    (void)ls_emulated_count_block(false);
}

static struct lane *meet(unsigned mask, uint64_t value) {
    struct lane *lane = &block.lanes[block.now];
    if (!(mask >> ls_emulated_lane() & 1)) die("a lane is not in the mask of its own shuffle");
    lane->mask = mask, lane->brought = value;
    pause_as(MEETS_WARP);
    return lane;
}

uint64_t ls_emulated_meet_warp(unsigned mask, uint64_t value, int source) {
    const struct lane *lane = meet(mask, value);
    if (source < 0 || source >= WARP || !(lane->joined >> source & 1)) die("a shuffle reads a lane that did not come");
    return block.lanes[block.now / WARP * WARP + source].seen;
}

unsigned ls_emulated_ballot(unsigned mask, bool value) {
    const struct lane *lane = meet(mask, value);
    unsigned votes = 0;
    for (int i = 0; i < WARP; i++)
        if (lane->joined >> i & 1 && block.lanes[block.now / WARP * WARP + i].seen) votes |= 1U << i;
    return votes;
}
