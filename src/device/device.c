/* The table of device kinds, and lists of devices: "gpu", "cpu", "cpu:0,cpu:1", or a number of CPU devices. Mirrors the
 * devices argument of tf.distribute.MirroredStrategy, which by default takes all GPUs, or the CPU where there is none.
 */
#include "device/device.h"

#include <stdio.h>
#include <string.h>

#include "base/kept_error.h"
#include "device/host.h"
#include "device/gpu.h"
#include "base/plain.h"

/* The first kind is there in every process: a number of devices means it, and auto takes one of it where none of the
 * others is there. */
const struct ls_device_kind *const ls_device_kinds[] = {&ls_cpu_kind, &ls_gpu_kind, NULL};

struct entry {
    const struct ls_device_kind *kind;
    int index;
};

/* One piece of a list: length bytes at text, for messages "%.*s". */
struct piece {
    const char *text;
    int length;
};

void ls_device_close(struct ls_device *device) {
    if (device) device->ops->close(device);
}

ls_status ls_device_synchronize(struct ls_device *device) {
    return device->ops->queue ? device->ops->queue->synchronize(device) : LS_OK;
}

ls_status ls_device_wait(struct ls_device *device) {
    return device->ops->queue ? device->ops->queue->wait(device) : LS_OK;
}

void ls_device_drain(struct ls_device *device) {
    if (!device->ops->queue) return;
    struct ls_kept_error kept = ls_kept_error_of(LS_UNKNOWN);
    if (ls_device_synchronize(device)) (void)ls_kept_error_raise(&kept);
}

ls_status ls_device_allocate_floats(struct ls_device *device, size_t count, float **floats) {
    void *memory = NULL;
    ls_status status = device->ops->allocate(device, count * sizeof(**floats), &memory);
    if (!status) *floats = memory;
    return status;
}

ls_status ls_device_allocate_host(struct ls_device *device, size_t size, void **memory) {
    const struct ls_device_queue_ops *queue = device->ops->queue;
    return queue ? queue->allocate_host(device, size, memory) : device->ops->allocate(device, size, memory);
}

void ls_device_release_host(struct ls_device *device, void *memory) {
    const struct ls_device_queue_ops *queue = device->ops->queue;
    if (queue)
        queue->release_host(device, memory);
    else
        device->ops->release(device, memory);
}

void ls_devices_fingerprint(struct ls_device *const *devices, int count, char *text, size_t size) {
    bool gpus = false;
    for (int i = 0; i < count; i++) gpus |= !devices[i]->host_memory;
    ls_cpu_fingerprint(text, size); /* the host adds up and reads the data in any case */
    size_t used = strlen(text);
    if (!gpus || used + 2 >= size) return;
    (void)snprintf(text + used, size - used, ", ");
    ls_gpu_fingerprint(text + used + 2, size - used - 2);
}

static void close_all(struct ls_device **devices, int count) {
    for (int i = 0; i < count; i++) ls_device_close(devices[i]);
}

/* The number that text consists of; -1 when it is not one, or is above a million. */
static int read_device_number(const char *text, int length) {
    int value = 0;
    if (length < 1) return -1;
    for (int i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || value > 100000) return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

static struct piece trim(const char *text, size_t length) {
    while (length && text[0] == ' ') text++, length--;
    while (length && text[length - 1] == ' ') length--;
    return (struct piece){text, length > 100 ? 100 : (int)length};
}

static bool is_word(struct piece piece, const char *word) {
    return ls_plain_same_piece(piece.text, (size_t)piece.length, word);
}

/* "cpu and gpu" */
static void list_kinds(char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; ls_device_kinds[i] && used < size; i++) {
        const char *before = !i ? "" : ls_device_kinds[i + 1] ? ", " : " and ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", before, ls_device_kinds[i]->name);
    }
}

/* NULL: there is none of that name. */
static const struct ls_device_kind *find_kind(struct piece name) {
    int i = 0;
    while (ls_device_kinds[i] && !is_word(name, ls_device_kinds[i]->name)) i++;
    return ls_device_kinds[i];
}

/* NULL: there is one. */
static const char *why_missing(const struct ls_device_kind *kind) {
    return kind->unavailable ? kind->unavailable() : NULL;
}

static ls_status read_kind(struct piece piece, int name_length, const struct ls_device_kind **kind) {
    char names[64];
    const struct ls_device_kind *found = find_kind((struct piece){piece.text, name_length});
    const char *reason = found ? why_missing(found) : NULL;
    if (reason) return ls_fail(LS_INVALID_ARGUMENT, "device '%.*s': %s", piece.length, piece.text, reason);
    list_kinds(names, sizeof(names));
    if (!found)
        return ls_fail(LS_INVALID_ARGUMENT, "device '%.*s': there is no kind of device '%.*s'; there are %s",
                       piece.length, piece.text, name_length, piece.text, names);
    *kind = found;
    return LS_OK;
}

static ls_status read_entry(struct piece piece, struct entry *entry) {
    const char *colon = memchr(piece.text, ':', (size_t)piece.length);
    if (!colon)
        return ls_fail(LS_INVALID_ARGUMENT, "device '%.*s' is not of the form kind:index, such as cpu:0", piece.length,
                       piece.text);
    int name_length = (int)(colon - piece.text);
    ls_status status = read_kind(piece, name_length, &entry->kind);
    if (status) return status;
    entry->index = read_device_number(colon + 1, piece.length - name_length - 1);
    if (entry->index < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "device '%.*s': the index after the colon is not a number", piece.length,
                       piece.text);
    int count = entry->kind->count();
    if (entry->index < count) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "device '%.*s': the index is past the last one, %s:%d", piece.length,
                   piece.text, entry->kind->name, count - 1);
}

static ls_status check_new(const struct entry *entries, int count, struct piece piece) {
    if (count == LS_MAX_LOCAL_DEVICES)
        return ls_fail(LS_INVALID_ARGUMENT, "device '%.*s' is one too many: a process can have %d devices",
                       piece.length, piece.text, LS_MAX_LOCAL_DEVICES);
    for (int i = 0; i < count; i++)
        if (entries[i].kind == entries[count].kind && entries[i].index == entries[count].index)
            return ls_fail(LS_INVALID_ARGUMENT, "device '%.*s' is named twice", piece.length, piece.text);
    return LS_OK;
}

/* entries has one place more than a process can have devices. */
static ls_status read_device_list(const char *list, struct entry *entries, int *count) {
    int found = 0;
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        struct piece piece = trim(at, length);
        ls_status status = piece.length
                               ? read_entry(piece, &entries[found])
                               : ls_fail(LS_INVALID_ARGUMENT, "the list of devices '%s' has an empty entry", list);
        if (!status) status = check_new(entries, found, piece);
        if (status) return status;
        found++;
        at += length;
        if (!*at) break;
    }
    *count = found;
    return LS_OK;
}

static ls_status read_count(const char *list, int number, struct entry *entries, int *count) {
    if (number < 1 || number > LS_MAX_LOCAL_DEVICES)
        return ls_fail(LS_INVALID_ARGUMENT, "devices '%s': the number of devices must be from 1 to %d", list,
                       LS_MAX_LOCAL_DEVICES);
    for (int i = 0; i < number; i++) entries[i] = (struct entry){ls_device_kinds[0], i};
    *count = number;
    return LS_OK;
}

/* The whole of a kind that is not the first. */
static ls_status read_all(const char *list, const struct ls_device_kind *kind, struct entry *entries, int *count) {
    const char *reason = why_missing(kind);
    if (reason) return ls_fail(LS_INVALID_ARGUMENT, "devices '%s': %s", list, reason);
    *count = kind->count();
    for (int i = 0; i < *count; i++) entries[i] = (struct entry){kind, i};
    return LS_OK;
}

static ls_status read_auto(const char *list, struct entry *entries, int *count) {
    for (int i = 1; ls_device_kinds[i]; i++)
        if (!why_missing(ls_device_kinds[i])) return read_all(list, ls_device_kinds[i], entries, count);
    return read_count(list, 1, entries, count);
}

static ls_status read_devices(const char *list, struct entry *entries, int *count) {
    struct piece whole = trim(list ? list : "", list ? strlen(list) : 0);
    if (!whole.length)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "the list of devices is empty; give gpu, cpu, a number of CPU devices, or a "
                       "list such as cpu:0,cpu:1");
    if (strspn(whole.text, "+-0123456789") >= (size_t)whole.length)
        return read_count(list, read_device_number(whole.text, whole.length), entries, count);
    if (is_word(whole, "auto")) return read_auto(list, entries, count);
    const struct ls_device_kind *kind = find_kind(whole);
    if (kind)
        return kind == ls_device_kinds[0] ? read_count(list, 1, entries, count) : read_all(list, kind, entries, count);
    return read_device_list(list, entries, count);
}

ls_status ls_devices_open(const char *list, int threads, struct ls_device **devices, int *count) {
    struct entry entries[LS_MAX_LOCAL_DEVICES + 1];
    struct ls_device *opened[LS_MAX_LOCAL_DEVICES];
    int found = 0;
    ls_status status = read_devices(list, entries, &found);
    if (status) return status;
    for (int i = 0; i < found; i++) {
        status = entries[i].kind->open(entries[i].index, threads, &opened[i]);
        if (status) {
            close_all(opened, i);
            return status;
        }
    }
    memcpy(devices, opened, (size_t)found * sizeof(opened[0]));
    *count = found;
    return LS_OK;
}
