/* LS_CLONES before a function: it is compiled for several instruction sets and the best one is chosen when the program
 * starts. Only for element loops: without contraction and with one rounding an element all variants give the same bits.
 * Not under the thread sanitizer, whose run time does not exist yet when the choice is made. */
#pragma once
#include <features.h> /* __GLIBC__ */

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LS_NO_CLONES
#endif
#endif
#if defined(__SANITIZE_THREAD__) || !defined(__x86_64__) || !defined(__GLIBC__)
#define LS_NO_CLONES
#endif

#ifdef LS_NO_CLONES
#define LS_CLONES
#else
#define LS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
