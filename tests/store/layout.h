/* A random model's variables and buckets, as a store has them. */
#pragma once
#include "property/draw.h"
#include "shard/terms.h"

/* Writes parts and ranges, of most_parts each, and the terms that lead to them. Variables begin at multiples of 16, as
 * a network's do, and one of three is small. Buckets are cut at variables. */
void layout_draw(struct draw *draw, size_t most_parts, size_t most_elements, struct ls_terms_model *terms,
                 struct ls_blob_part *parts, struct ls_range *ranges);
