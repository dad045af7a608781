/* Events through protobuf-c, in TensorFlow's wire form. */
#include "observe/event.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "event.pb-c.h"

/* The parts of a message that is about to be packed. */
struct parts {
    Ls__Event event;
    Ls__SourceMetadata source;
    Ls__Summary summary;
    Ls__SummaryValue value, *values[1];
    Ls__SummaryMetadata metadata;
    Ls__PluginData plugin;
    Ls__Tensor tensor;
    Ls__TensorShape shape;
    Ls__TensorExtent extents[LS_MAX_RANK], *dims[LS_MAX_RANK];
    ProtobufCBinaryData *strings; /* owns */
};

static char version[] = "brain.Event:2", writer[] = "lockstep";

static void fill_version(struct parts *parts) {
    ls__source_metadata__init(&parts->source);
    parts->source.writer = writer;
    parts->event.source_metadata = &parts->source;
    parts->event.what_case = LS__EVENT__WHAT_FILE_VERSION;
    parts->event.file_version = version;
}

static void fill_shape(struct parts *parts, const ls_shape *shape) {
    ls__tensor_shape__init(&parts->shape);
    for (int i = 0; i < shape->rank; i++) {
        ls__tensor_extent__init(&parts->extents[i]);
        parts->extents[i].size = shape->dims[i];
        parts->dims[i] = &parts->extents[i];
    }
    parts->shape.dim = parts->dims;
    parts->shape.n_dim = (size_t)shape->rank;
    parts->tensor.tensor_shape = &parts->shape;
}

static ls_status fill_strings(struct parts *parts, const struct ls_event *event) {
    size_t count = (size_t)event->shape.dims[0];
    parts->strings = ls_alloc_array(count, sizeof(*parts->strings));
    if (!parts->strings) return ls_fail_memory("an event", count * sizeof(*parts->strings));
    for (size_t i = 0; i < count; i++)
        parts->strings[i] = (ProtobufCBinaryData){event->strings[i].size, (uint8_t *)event->strings[i].data};
    parts->tensor.string_val = parts->strings;
    parts->tensor.n_string_val = count;
    return LS_OK;
}

static ls_status fill_tensor(struct parts *parts, const struct ls_event *event) {
    ls__tensor__init(&parts->tensor);
    parts->tensor.dtype = (int32_t)event->type;
    fill_shape(parts, &event->shape);
    if (event->type == LS_EVENT_STRING) return fill_strings(parts, event);
    parts->tensor.tensor_content = (ProtobufCBinaryData){event->content.size, (uint8_t *)event->content.data};
    return LS_OK;
}

static ls_status fill_summary(struct parts *parts, const struct ls_event *event) {
    ls__summary__init(&parts->summary);
    ls__summary_value__init(&parts->value);
    ls__summary_metadata__init(&parts->metadata);
    ls__plugin_data__init(&parts->plugin);
    parts->plugin.plugin_name = (char *)event->plugin;
    parts->metadata.plugin_data = &parts->plugin;
    parts->value.tag = (char *)event->tag;
    parts->value.metadata = &parts->metadata;
    parts->value.tensor = &parts->tensor;
    parts->values[0] = &parts->value;
    parts->summary.value = parts->values;
    parts->summary.n_value = 1;
    parts->event.what_case = LS__EVENT__WHAT_SUMMARY;
    parts->event.summary = &parts->summary;
    return fill_tensor(parts, event);
}

ls_status ls_event_pack(const struct ls_event *event, uint8_t **bytes, size_t *size) {
    struct parts parts = {0};
    ls_status status = LS_OK;
    ls__event__init(&parts.event);
    parts.event.wall_time = event->wall_time;
    parts.event.step = event->step;
    if (event->tag)
        status = fill_summary(&parts, event);
    else
        fill_version(&parts);
    size_t length = status ? 0 : ls__event__get_packed_size(&parts.event);
    uint8_t *packed = status ? NULL : ls_alloc(length);
    if (!status && !packed) status = ls_fail_memory("an event", length);
    if (!status) {
        *size = ls__event__pack(&parts.event, packed);
        *bytes = packed;
    }
    ls_free(parts.strings);
    return status;
}

bool ls_event_read(const uint8_t *bytes, size_t size, char tag[LS_EVENT_TAG], int64_t *step) {
    Ls__Event *event = ls__event__unpack(NULL, size, bytes);
    if (!event) return false;
    *step = event->step;
    tag[0] = 0;
    if (event->what_case == LS__EVENT__WHAT_SUMMARY && event->summary->n_value)
        (void)snprintf(tag, LS_EVENT_TAG, "%s", event->summary->value[0]->tag);
    ls__event__free_unpacked(event, NULL);
    return true;
}
