/* Files of the command's own, behind tools.h. */
#include <lockstep/tools.h>

#include "base/json.h"
#include "base/need.h"
#include "base/status.h"
#include "base/streams.h"
#include "base/whole_file.h"

static ls_status with_option(const char *option, ls_status status) {
    return status ? ls_fail_context(status, "'%s'", option) : LS_OK;
}

ls_status ls_tools_try_file(const char *option, const char *path) {
    LS_NEED(option, path);
    return with_option(option, ls_whole_file_try(path));
}

ls_status ls_tools_write_file(const char *option, const char *path, ls_tools_write_fn *write, void *context) {
    LS_NEED(option, path, write);
    struct ls_whole_file file;
    ls_status status = ls_whole_file_open(path, &file);
    if (status) return with_option(option, status);
    write(context, file.out);
    if (ferror(file.out)) status = ls_whole_file_fail(&file);
    return with_option(option, ls_whole_file_close(&file, status));
}

void ls_tools_open_streams(void) {
    ls_streams_open();
}

void ls_tools_put_json(FILE *out, const char *name, const char *text) {
    if (!out || !name || !text) return;
    (void)fprintf(out, "\"%s\": ", name);
    ls_json_put(out, text);
    (void)fputs(", ", out);
}
