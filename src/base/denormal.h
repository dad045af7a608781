/* The denormal mode of the present thread. Computing flushes denormals to zero: Adam's moments decay into them, where
 * each operation costs a hundred cycles. Adding between replicas keeps them, as IEEE 754 says, so that its bits do not
 * depend on which thread added. */
#pragma once
#if defined(__SSE__)
#include <xmmintrin.h>
#define LS_DENORMALS_FLUSHED 0x8040U /* flush to zero, denormals are zero */
#endif

/* Changes the mode if need be, and returns the one before for ls_denormals_restore. */
static inline unsigned ls_denormals_flush(void) {
#if defined(__SSE__)
    unsigned before = _mm_getcsr() & LS_DENORMALS_FLUSHED;
    if (before != LS_DENORMALS_FLUSHED) _mm_setcsr(_mm_getcsr() | LS_DENORMALS_FLUSHED);
    return before;
#else
    return 0;
#endif
}

static inline unsigned ls_denormals_keep(void) {
#if defined(__SSE__)
    unsigned before = _mm_getcsr() & LS_DENORMALS_FLUSHED;
    if (before) _mm_setcsr(_mm_getcsr() & ~LS_DENORMALS_FLUSHED);
    return before;
#else
    return 0;
#endif
}

static inline void ls_denormals_restore(unsigned before) {
#if defined(__SSE__)
    unsigned now = _mm_getcsr();
    if ((now & LS_DENORMALS_FLUSHED) != before) _mm_setcsr((now & ~LS_DENORMALS_FLUSHED) | before);
#else
    (void)before;
#endif
}
