/* Rotary position embedding (Su et al. 2021, RoFormer), in the form of Hugging Face's Llama ("rotate half"): elements i
 * and i + width / 2 of a head are a pair, which position t turns by the angle t 10000^(-2 i / width). */
#pragma once
#include <stdint.h>

/* turns (length, 2, width / 2): cosines, then sines, of each position. width is even. The same bits with every libc. */
void ls_rope_fill(float *turns, int64_t length, int64_t width);
