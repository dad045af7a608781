/* The opening of a source, of whatever kind. */
#include "data/sources.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/reader.h"

ls_status ls_source_open(const struct ls_source_start *start, const char *path, const ls_dataset_options *options,
                         ls_dataset **dataset) {
    ls_dataset_options filled;
    ls_status status = ls_dataset_options_fill(options, &filled);
    if (!status && start->folder) status = ls_reader_folder_check(path);
    if (status) return status;
    struct ls_source *source = ls_alloc(start->size);
    if (!source) return ls_fail_memory("a dataset", start->size);
    *source = start->source;
    source->split = filled.split;
    status = start->open(&source, path, &filled);
    return ls_dataset_from_source(status, source, &filled, dataset);
}
