/* The stages that each example goes through after it has been read (tf.data's map). */
#pragma once
#include <lockstep/lockstep.h>
#include <stdio.h>

#include "data/pixels.h"
#include "data/targets.h"

/* A list of stages and the shape of what each receives; shapes[count] is the last one's output. */
struct ls_maps {
    ls_map *stages;   /* owns */
    ls_shape *shapes; /* own */
    int count;
    int64_t most; /* elements of the largest shape */
    int mix;      /* the stage that mixes two examples, which who reads them does; count: none */
    int moves;    /* the first stages, which only move elements: of bytes, too */
};
/* Copies a list that ends with a zero row, or NULL. INVALID_ARGUMENT names the stage and its mistake. */
ls_status ls_maps_copy(const ls_map *list, const ls_shape *input, struct ls_maps *maps);
void ls_maps_free(struct ls_maps *maps);
/* "flip,crop(24x24+4),function(augment)", for comparison between workers. */
void ls_maps_print(const struct ls_maps *maps, FILE *out);

/* One example on its way. */
struct ls_map_example {
    uint64_t seed;
    int64_t index, pass;              /* which example, in which pass over the data */
    const struct ls_targets *targets; /* of this example */
};
/* Takes the example through the stages from first to before end, none of which mixes. buffers: two of maps->most
 * elements; the example is in the first for an even first, else in the other. The result is in buffers[end % 2]. */
ls_status ls_maps_run(const struct ls_maps *maps, int first, int end, const struct ls_map_example *example,
                      float *const buffers[2]);
/* The same through the stages that move, of bytes. */
ls_status ls_maps_move(const struct ls_maps *maps, const struct ls_map_example *example, uint8_t *const buffers[2]);
/* True if the stages behind those that move depend on an element's value and channel alone: *table becomes what they
 * make of each byte / 255. */
bool ls_maps_tabulate(const struct ls_maps *maps, struct ls_pixel_table *table);
/* The words that a stage draws for the example. */
void ls_maps_draw(int stage, const struct ls_map_example *example, uint32_t random[8]);
