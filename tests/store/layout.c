/* The first bucket is the last variables, as gradients come. */
#include "store/layout.h"

void layout_draw(struct draw *draw, size_t most_parts, size_t most_elements, struct ls_terms_model *terms,
                 struct ls_blob_part *parts, struct ls_range *ranges) {
    size_t count = 1 + draw_below(draw, most_parts), at = 0, end;
    for (size_t i = 0; i < count; i++) {
        size_t most = draw_once_in(draw, 3) ? 40 : most_elements;
        parts[i] =
            (struct ls_blob_part){.offset = at, .count = 1 + draw_below(draw, most), .decays = draw_once_in(draw, 2)};
        at = (at + parts[i].count + 15) / 16 * 16;
    }
    terms->count = end = at;
    for (size_t i = count; i-- > 0;) {
        if (i && draw_once_in(draw, 2)) continue;
        ranges[terms->bucket_count++] = (struct ls_range){parts[i].offset, end};
        end = parts[i].offset;
    }
    terms->buckets = ranges;
    terms->parts = parts;
    terms->part_count = count;
}
