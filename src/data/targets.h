/* Targets and weights of examples. Mirrors y and sample_weight of tf.keras.Model.fit. */
#pragma once
#include <lockstep/lockstep.h>

/* Alike for all examples of a dataset. */
struct ls_target_kind {
    bool numbers;   /* each has numbers of shape; else that many numbers of classes */
    ls_shape shape; /* rank 0: one number, or class */
    bool weighted;  /* each has a weight; else all count as 1 */
};
/* int32 or float32 elements that an example has. */
int64_t ls_target_width(const struct ls_target_kind *kind);

/* Those of some rows; what their kind does not have is NULL. */
struct ls_targets {
    int32_t *labels; /* (rows, shape...) */
    float *numbers;  /* (rows, shape...) */
    float *weights;  /* (rows) */
};
#define LS_LABELS(place) (&(struct ls_targets){.labels = (place)}) /* of who knows that there are labels alone */
ls_status ls_targets_new(const struct ls_target_kind *kind, int64_t rows, struct ls_targets *targets);
void ls_targets_free(struct ls_targets *targets);
/* From that row on. */
struct ls_targets ls_targets_at(const struct ls_targets *targets, const struct ls_target_kind *kind, int64_t row);
void ls_targets_copy(const struct ls_target_kind *kind, const struct ls_targets *from, int64_t rows,
                     const struct ls_targets *to);
/* The place where targets are read: numbers that are to become labels lie where labels will. */
struct ls_targets ls_targets_place(const struct ls_targets *targets, bool become_labels);
/* And become labels; INVALID_ARGUMENT names the first that is no class. some_uncounted: -1 is a label, too. */
ls_status ls_targets_make_classes(const struct ls_target_kind *kind, const struct ls_targets *targets, int64_t rows,
                                  bool some_uncounted);
/* "classes", or "numbers (3)" */
void ls_target_text(const struct ls_target_kind *kind, char *text, size_t size);
