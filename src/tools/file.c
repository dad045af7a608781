/* Files and errors of the command's own, behind tools.h; and whether a training uses a checkpoint folder: its lock
 * tells. */
#include <lockstep/tools.h>

#include "base/json.h"
#include "base/need.h"
#include "base/plain.h"
#include "base/settings.h"
#include "base/status.h"
#include "base/streams.h"
#include "base/whole_file.h"
#include "checkpoint/folder_lock.h"

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

void ls_tools_print_json(FILE *out, const char *format, ...) {
    LS_NEED_OR(, out, format);
    va_list arguments;
    va_start(arguments, format);
    ls_json_print_list(out, format, &arguments);
    va_end(arguments);
}

ls_status ls_tools_fail(ls_status status, const char *format, ...) {
    LS_NEED(format);
    char text[LS_ERROR_SIZE];
    (void)LS_PLAIN_ARGUMENTS(text, sizeof(text), format);
    return ls_fail(status, "%s", *text ? text : ls_status_name(status));
}

ls_status ls_tools_folder_job(const char *folder, bool *there, bool *left, double *comes, double *returns) {
    LS_NEED(folder, there, left, comes, returns);
    struct ls_settings settings;
    ls_status status = ls_settings_read(&settings);
    if (status) return status;
    enum ls_folder_holder holder = ls_folder_lock_look(folder);
    *there = holder != LS_FOLDER_FREE;
    *left = holder == LS_FOLDER_LEFT;
    *comes = settings.join_timeout;
    *returns = settings.rejoin_timeout;
    return LS_OK;
}
