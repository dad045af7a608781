/* Dividing loops among threads through libgomp's own entry point, since that is the OpenMP that oneDNN runs on with
 * every compiler of this file. The division of a loop changes no bit: sums are taken in chunks that the shapes fix. */
#include "device/cpu/cpu.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/denormal.h"

extern int omp_get_max_threads(void);
extern int omp_get_num_threads(void);
extern int omp_get_thread_num(void);
extern void omp_set_num_threads(int count);
extern void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);

/* libgomp's own barriers order all this; begun and ended say so to ThreadSanitizer, which does not see into it. */
struct job {
    _Atomic int begun, ended;
    int64_t count;
    ls_team_fn *fn;
    void *context;
};

/* The denormal mode belongs to a thread, and OpenMP's threads do not take over that of the caller; so each part sets
 * it. */
static void run_part(void *argument) {
    struct job *job = argument;
    if (!atomic_load(&job->begun)) return;
    int64_t threads = omp_get_num_threads(), own = omp_get_thread_num();
    int64_t begin = job->count * own / threads, end = job->count * (own + 1) / threads;
    unsigned before = ls_denormals_flush();
    if (begin < end) job->fn(job->context, begin, end);
    ls_denormals_restore(before);
    (void)atomic_fetch_add(&job->ended, 1);
}

void ls_team_run(int64_t count, int64_t grain, ls_team_fn *fn, void *context) {
    struct job job = {.count = count, .fn = fn, .context = context};
    int64_t threads = omp_get_max_threads(), parts = grain > 0 ? count / grain : count;
    if (threads > parts) threads = parts;
    if (threads <= 1) {
        fn(context, 0, count);
        return;
    }
    atomic_store(&job.begun, 1);
    GOMP_parallel(run_part, &job, (unsigned)threads, 0);
    (void)atomic_load(&job.ended);
}

/* Within a team each thread's products are its own already, for OpenMP does not nest. Without one the caller would
 * bring all its threads. */
void ls_team_run_alone(int64_t count, ls_team_fn *fn, void *context) {
    int threads = omp_get_max_threads();
    if (threads > 1 && count == 1) {
        omp_set_num_threads(1);
        fn(context, 0, count);
        omp_set_num_threads(threads);
        return;
    }
    ls_team_run(count, 1, fn, context);
}
