/* Tests of base/fill: many values at once, by several threads or without them, are those that are drawn one by one. */
#include "base/fill.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "harness.h"
#include "property/draw.h"

enum { MOST = 1 << 19, PIECE = 1000 };

static atomic_int threads, most_threads;
static float whole[MOST + 1], pieces[MOST];

/* The linker puts this in the place of pthread_create (--wrap). */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument) {
    if (threads == most_threads) return EAGAIN;
    threads++;
    return __real_pthread_create(thread, attributes, fn, argument);
}

static void check_fill(struct draw *draw, int limit) {
    const struct ls_fill fill = {(enum ls_fill_kind)draw_below(draw, LS_FILL_KINDS), 0.5, draw_below(draw, SIZE_MAX),
                                 draw_below(draw, SIZE_MAX)};
    uint64_t first = draw_below(draw, 1 << 30);
    size_t count = 1 + (size_t)draw_below(draw, MOST);
    threads = 0;
    most_threads = limit;
    whole[count] = 7;
    ls_fill(&fill, first, whole, count);
    ck_assert(whole[count] == 7);
    for (size_t i = 0; i < count; i += PIECE)
        ls_fill(&fill, first + i, pieces + i, i + PIECE < count ? PIECE : count - i);
    ck_assert_mem_eq(whole, pieces, count * sizeof(*whole));
}

TEST(threads_draw_the_bits_of_one) {
    (void)printf("# seed %d\n", (int)getpid());
    struct draw draw = draw_from((uint64_t)getpid(), 0);
    for (int i = 0; i < 12; i++) check_fill(&draw, i % 4 ? 100 : i / 4);
}

TEST(many_values_are_drawn_by_all_processors) {
    const struct ls_fill fill = {LS_FILL_UNIFORM, 1, 1, 2};
    int processors = ls_thread_processors();
    threads = 0;
    most_threads = 100;
    ls_fill(&fill, 0, whole, MOST);
    ck_assert_int_eq(threads, (processors < 8 ? processors : 8) - 1); /* of 8 parts */
    threads = 0;
    ls_fill(&fill, 0, whole, MOST / 16);
    ck_assert_int_eq(threads, 0);
}

TESTS("base/fill", .seconds = 60)
