/* lockstep timeline, behind tools.h: reads the files, writes the merged trace, tells the summary. */
#include <errno.h>
#include <lockstep/tools.h>
#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "base/new.h"
#include "base/text.h"
#include "observe/timeline.h"

typedef void print_fn(const struct ls_timeline *timeline, FILE *out);

static ls_status write_timeline(const struct ls_timeline *timeline, const char *path, print_fn *print) {
    FILE *out = fopen(path, "we");
    if (!out) return ls_fail(LS_INVALID_ARGUMENT, "cannot write '%s': %s", path, strerror(errno));
    errno = 0;
    print(timeline, out);
    bool failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed;
    if (failed) return ls_fail(LS_INVALID_ARGUMENT, "cannot write '%s': %s", path, strerror(errno ? errno : EIO));
    return LS_OK;
}

/* text NULL: no summary is made. */
static ls_status read_and_write(struct ls_timeline_file *files, const char *const *paths, int count, const char *output,
                                print_fn *print, bool json, char **text) {
    struct ls_timeline *timeline = NULL;
    ls_status status = LS_OK;
    for (int i = 0; i < count && !status; i++) status = ls_timeline_read(paths[i], &files[i]);
    if (!status) status = ls_timeline_new(files, count, &timeline);
    if (!status && output) status = write_timeline(timeline, output, print);
    print_fn *summary = json ? ls_timeline_print_json : ls_timeline_print_text;
    if (!status && text) status = LS_TEXT(out, summary(timeline, out), "a summary", text);
    ls_timeline_free(timeline);
    return status;
}

static ls_status merge(const char *const *paths, int count, const char *output, print_fn *print, bool json,
                       char **text) {
    if (count < 1) return ls_fail(LS_INVALID_ARGUMENT, "no file is given");
    for (int i = 0; i < count; i++)
        if (!paths[i]) return ls_fail(LS_INVALID_ARGUMENT, "paths[%d] is NULL", i);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(struct ls_timeline_file, files, (size_t)count, "timelines");
    ls_status status = read_and_write(files, paths, count, output, print, json, text);
    for (int i = 0; i < count; i++) ls_timeline_read_free_file(&files[i]);
    return status;
}

ls_status ls_tools_timeline(const char *const *paths, int count, const char *output, bool json, char **text) {
    LS_NEED(paths, text);
    return merge(paths, count, output, ls_timeline_print_merged, json, text);
}

ls_status ls_tools_timeline_page(const char *const *paths, int count, const char *output) {
    LS_NEED(paths, output);
    return merge(paths, count, output, ls_timeline_page_print, false, NULL);
}
