/* One event of a TensorBoard event file as bytes: a tensor with a tag, as TensorFlow 2's summaries write scalars,
 * histograms and images; or a graph. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_EVENT_TAG 256 /* bytes of a tag, the terminating zero included; longer ones are cut */

enum ls_event_type { LS_EVENT_FLOAT = 1, LS_EVENT_DOUBLE = 2, LS_EVENT_STRING = 7 };
struct ls_event_bytes {
    const uint8_t *data;
    size_t size;
};
struct ls_event {
    double wall_time; /* seconds since 1970 */
    int64_t step;
    const char *tag;    /* NULL for a file's first event, which says its version */
    const char *plugin; /* "scalars", "histograms", "images" */
    enum ls_event_type type;
    ls_shape shape;
    struct ls_event_bytes content;        /* of numbers, little-endian */
    const struct ls_event_bytes *strings; /* [shape.dims[0]] for LS_EVENT_STRING */
    const struct ls_event_node *nodes;    /* [node_count] of a graph: then the rest does not count, but for wall_time */
    size_t node_count;
};
/* A node of a graph; all borrowed. */
struct ls_event_node {
    const char *name;          /* parts of a path are boxes in TensorBoard: "sequential/dense" */
    const char *op;            /* "Dense" */
    const char *const *inputs; /* names of nodes */
    size_t input_count;
    ls_shape output; /* of one example */
};
/* *bytes is freed with ls_free. */
ls_status ls_event_pack(const struct ls_event *event, uint8_t **bytes, size_t *size);
/* Reads tag and step of an event. The tag is empty for a file's first event and for a graph. DATA_LOSS for other bytes.
 */
ls_status ls_event_read(const uint8_t *bytes, size_t size, char tag[LS_EVENT_TAG], int64_t *step);
