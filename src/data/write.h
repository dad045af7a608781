/* Writing a dataset into files: one table a format. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/whole_file.h"
#include "data/dataset.h"

struct ls_write {
    const ls_dataset *dataset; /* borrowed */
    ls_file_format format;
    const char *folder, *split; /* "train", "test" or "validation" */
    ls_write_options options;   /* defaults filled in */
    bool copy;                  /* images that are encoded already are taken as they are */
    int64_t next, done;         /* the source's example that comes; how many have been written */
    void *state;                /* the format's */
};
struct ls_write_ops {
    ls_status (*begin)(struct ls_write *write);
    ls_status (*add)(struct ls_write *write);
    /* Also after a failure, with that status; returns it, or its own. NULL: there is nothing to end. */
    ls_status (*end)(struct ls_write *write, ls_status status);
};
extern const struct ls_write_ops ls_write_folder, ls_write_records, ls_write_arrays;

/* The next example as a JPEG or PNG, copied or encoded: *bytes is freed with ls_free. UNIMPLEMENTED for what is no
 * image. */
ls_status ls_write_encode(const struct ls_write *write, uint8_t **bytes, size_t *size,
                          const struct ls_targets *targets);
/* True if examples are height x width x 1 or 3. */
bool ls_write_is_image(const struct ls_write *write);
