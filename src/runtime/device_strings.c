/* An entry is a row of parts, "/name:value". Mirrors ParseFullName of TensorFlow's device_name_utils.h, for the devices
 * of this process. */
#include "runtime/device_strings.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/plain.h"

struct text {
    const char *at;
    int length;
};

static bool is(struct text text, const char *word) {
    return ls_plain_same_piece(text.at, (size_t)text.length, word);
}

static bool is_number(struct text text, int number) {
    char digits[16];
    (void)snprintf(digits, sizeof(digits), "%d", number);
    return is(text, digits);
}

static struct text trim(const char *at, size_t length) {
    while (length && at[0] == ' ') at++, length--;
    while (length && at[length - 1] == ' ') length--;
    return (struct text){at, (int)length};
}

static bool has_no_cluster(const struct ls_cluster_view *own) {
    return !own || !own->cluster_mode;
}

/* TensorFlow calls a process alone localhost, and it is task 0 of any job. */
static bool is_here(const struct ls_cluster_view *own, struct text name, struct text value) {
    if (is(name, "job"))
        return has_no_cluster(own) ? is(value, "localhost") || is(value, "worker")
                                   : is(value, ls_cluster_view_type_name(own->type));
    return is_number(value, is(name, "task") && !has_no_cluster(own) ? own->index : 0);
}

static ls_status fail_elsewhere(const struct ls_cluster_view *own, struct text entry) {
    char here[32] = "a process alone";
    if (!has_no_cluster(own))
        (void)snprintf(here, sizeof(here), "%s:%d", ls_cluster_view_type_name(own->type), own->index);
    return ls_fail(LS_INVALID_ARGUMENT, "device '%.*s' is of another task: this one is %s, and names its own devices",
                   entry.length, entry.at, here);
}

static ls_status fail_unread(struct text entry) {
    return ls_fail(LS_INVALID_ARGUMENT,
                   "device '%.*s' is not of the form /gpu:0, /device:GPU:0 or "
                   "/job:worker/replica:0/task:0/device:GPU:0",
                   entry.length, entry.at);
}

/* The part that begins at *at, which moves behind it; part: without its slash. */
static bool take_part(const char **at, const char *end, struct text *part, struct text *name, struct text *value) {
    if (*at == end || **at != '/') return false;
    const char *begin = *at + 1, *next = memchr(begin, '/', (size_t)(end - begin));
    *at = next ? next : end;
    *part = (struct text){begin, (int)(*at - begin)};
    const char *colon = memchr(begin, ':', (size_t)part->length);
    if (!colon) return false;
    *name = (struct text){begin, (int)(colon - begin)};
    *value = (struct text){colon + 1, (int)(*at - colon - 1)};
    return true;
}

/* "gpu:0" of an entry that begins with a slash. */
static ls_status read_string(const struct ls_cluster_view *own, struct text entry, struct text *device) {
    struct text part, name, value;
    *device = (struct text){0};
    for (const char *at = entry.at, *end = at + entry.length; at < end;) {
        if (!take_part(&at, end, &part, &name, &value)) return fail_unread(entry);
        bool where = is(name, "job") || is(name, "replica") || is(name, "task");
        if (where && !is_here(own, name, value)) return fail_elsewhere(own, entry);
        if (where) continue;
        if (device->at) return fail_unread(entry);
        *device = is(name, "device") ? value : part;
    }
    return device->at ? LS_OK : fail_unread(entry);
}

ls_status ls_device_strings_read(const struct ls_cluster_view *own, char *list) {
    char *to = list;
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        struct text entry = trim(at, length), device = entry;
        ls_status status = entry.length && entry.at[0] == '/' ? read_string(own, entry, &device) : LS_OK;
        if (status) return status;
        at += length;
        bool more = *at == ',';
        memmove(to, device.at, (size_t)device.length);
        to += device.length;
        if (more) at++, *to++ = ',';
    }
    *to = '\0';
    return LS_OK;
}
