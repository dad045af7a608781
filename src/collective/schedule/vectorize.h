/* LS_VECTORIZE before a loop: an element of the output depends only on the same elements of the inputs, so the compiler
 * need not fear that the arrays overlap (they are equal or apart). */
#pragma once
#if defined(__clang__)
#define LS_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LS_VECTORIZE _Pragma("GCC ivdep")
#else
#define LS_VECTORIZE
#endif
