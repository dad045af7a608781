/* Rotary position embedding (Su et al. 2021, RoFormer), in the form of Hugging Face's Llama ("rotate half"): elements i
 * and i + width / 2 of a head are a pair, which position t turns by the angle t theta^(-2 i / width). */
#pragma once
#include <stdint.h>

#define LS_ROPE_THETA 10000 /* where theta is 0 */
#define LS_ROPE_MOST  1e12  /* of theta, which is at least 1 */

/* turns (length, 2, width / 2): cosines, then sines, of each position. width is even. The same bits with every libc. */
void ls_rope_fill(float *turns, int64_t length, int64_t width, float theta);
