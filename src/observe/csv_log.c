/* The log of epochs as a table (keras.callbacks.CSVLogger): a row an epoch, a column a number. The file is opened by
 * the worker that writes when it has something to write: after a loss that may be another one than before. Rows of
 * epochs that are done again are taken away first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "base/read_file.h"
#include "base/plain.h"

struct csv_log {
    ls_callback callback;
    ls_csv_logger_options options;
    char *path;
    FILE *out;     /* NULL when not open */
    int64_t begun; /* bytes before this training's rows: a state that survives, of who writes */
};

/* The size of the text without this training's rows of epochs from that one on, and without a torn row at its end. */
static size_t cut_rows(const char *text, size_t size, size_t begun, int epoch) {
    while (size > begun && text[size - 1] != '\n') size--;
    while (size > begun) {
        size_t row = size - 1;
        while (row > begun && text[row - 1] != '\n') row--;
        char *end;
        long number = strtol(text + row, &end, 10);
        if (end == text + row || number < epoch) break;
        size = row;
    }
    return size;
}

/* Cuts the file where training goes on: rows of earlier epochs stay. */
static ls_status cut_log(const struct csv_log *log, int epoch) {
    struct stat info;
    if (fstat(fileno(log->out), &info)) return ls_fail_errno("read", log->path);
    size_t size = (size_t)info.st_size;
    LS_CLEANUP(ls_free_pointer) char *text = ls_alloc(size + 1);
    if (!text) return ls_fail_memory(log->path, size);
    ls_status status = ls_read_file_at(fileno(log->out), log->path, 0, text, size);
    if (status) return status;
    if (ftruncate(fileno(log->out), (off_t)cut_rows(text, size, (size_t)log->begun, epoch)))
        return ls_fail_errno("cut", log->path);
    return LS_OK;
}

static ls_status open_log(struct csv_log *log, const char *mode) {
    log->out = fopen(log->path, mode);
    return log->out ? LS_OK : ls_fail_errno("open", log->path);
}

static ls_status close_log(struct csv_log *log) {
    FILE *out = ls_steal(log->out);
    return out && fclose(out) ? ls_fail_errno("write", log->path) : LS_OK;
}

/* Rows of other trainings are before it. */
static ls_status begin_rows(struct csv_log *log) {
    struct stat info;
    if (fstat(fileno(log->out), &info)) return ls_fail_errno("read", log->path);
    log->begun = (int64_t)info.st_size;
    return LS_OK;
}

static ls_status put_header(const struct csv_log *log, const ls_callback_call *call) {
    struct stat info;
    if (fstat(fileno(log->out), &info)) return ls_fail_errno("read", log->path);
    if (info.st_size) return LS_OK;
    (void)fputs("epoch", log->out);
    for (size_t i = 0; i < call->log_count; i++)
        (void)fprintf(log->out, "%c%s", log->options.separator, call->logs[i].name);
    (void)fputc('\n', log->out);
    return LS_OK;
}

static ls_status begin_log(void *context, const ls_callback_call *call) {
    struct csv_log *log = context;
    if (!call->writes) return LS_OK;
    ls_status status = close_log(log); /* of a fit that failed */
    if (!status) status = open_log(log, call->resumed || log->options.append ? "ae+" : "we+");
    if (status) return status;
    return call->resumed ? cut_log(log, call->epoch) : begin_rows(log);
}

/* This worker writes from now on, and did not before. */
static ls_status take_over(struct csv_log *log, const ls_callback_call *call) {
    ls_status status = open_log(log, "ae+");
    return status || !call->epoch ? status : cut_log(log, call->epoch);
}

static ls_status put_row(void *context, const ls_callback_call *call) {
    struct csv_log *log = context;
    if (!call->writes) return LS_OK;
    ls_status status = log->out ? LS_OK : take_over(log, call);
    if (!status) status = put_header(log, call);
    if (status) return status;
    (void)fprintf(log->out, "%d", call->epoch);
    for (size_t i = 0; i < call->log_count; i++)
        (void)ls_plain_print(log->out, "%c%.9g", log->options.separator, call->logs[i].value);
    (void)fputc('\n', log->out);
    return fflush(log->out) ? ls_fail_errno("write", log->path) : LS_OK;
}

static ls_status end_log(void *context, const ls_callback_call *call) {
    (void)call;
    return close_log(context);
}

static void release_log(void *context) {
    struct csv_log *log = context;
    if (log->out) (void)fclose(log->out);
    ls_free(log->path);
    ls_free(log);
}

ls_status ls_csv_logger_new(const ls_csv_logger_options *options, ls_callback **callback) {
    LS_NEED(callback);
    LS_NEW(struct csv_log, made, "a CSV log");
    ls_status status = ls_options_copy("ls_csv_logger_options", &made->options, sizeof(made->options), options);
    if (!status && (!made->options.path || !*made->options.path))
        status = ls_fail(LS_INVALID_ARGUMENT, "csv_logger: path is missing");
    if (!status && !(made->path = ls_strdup(made->options.path))) status = ls_fail_memory("a path", 1);
    if (!made->options.separator) made->options.separator = ',';
    made->callback =
        LS_CALLBACK(.name = "csv_logger", .context = made, .on_train_begin = begin_log, .on_epoch_end = put_row,
                    .on_train_end = end_log, .release = release_log, .warn_only = made->options.warn_only,
                    .state = &made->begun, .state_size = sizeof(made->begun));
    return LS_HAND_OVER(status, callback, &made->callback, release_log(made));
}
