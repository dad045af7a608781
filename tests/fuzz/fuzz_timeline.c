/* Timelines and flight records from any bytes: one error, or a file that merges with itself and is summed up. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "fuzz/fuzz.h"
#include "observe/timeline.h"

static void require(bool condition) {
    if (!condition) abort();
}

/* A merged timeline holds the same spans, but is of no one rank. */
static void print_all(const struct ls_timeline *timeline) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct ls_timeline_file back;
    require(out != NULL);
    ls_timeline_print_text(timeline, out);
    ls_timeline_print_json(timeline, out);
    ls_timeline_page_print(timeline, out);
    require(fflush(out) == 0);
    size_t start = size;
    ls_timeline_print_merged(timeline, out);
    require(fclose(out) == 0);
    require(ls_timeline_read_parse("merged", text + start, size - start, &back) == LS_INVALID_ARGUMENT);
    require(strstr(ls_error(), "otherData.rank") != NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct ls_timeline_file files[2];
    struct ls_timeline *timeline;
    for (int i = 0; i < 2; i++) {
        ls_status status = ls_timeline_read_parse("input", (const char *)data, size, &files[i]);
        require(status == LS_OK || (status == LS_INVALID_ARGUMENT && strstr(ls_error(), "input: ") == ls_error()));
        if (status) return 0;
        require(files[i].rank < files[i].workers);
    }
    if (files[1].workers > 1) files[1].rank = files[1].rank ? 0 : 1;
    require(ls_timeline_new(files, files[0].workers > 1 ? 2 : 1, &timeline) == LS_OK);
    print_all(timeline);
    ls_timeline_free(timeline);
    for (int i = 0; i < 2; i++) ls_timeline_read_free_file(&files[i]);
    return 0;
}
