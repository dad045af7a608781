/* Events through protobuf-c, in TensorFlow's wire form. */
#include "observe/event.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "event.pb-c.h"

struct extents {
    Ls__TensorShape shape;
    Ls__TensorExtent extents[1 + LS_MAX_RANK], *dims[1 + LS_MAX_RANK];
};

static void add_extent(struct extents *extents, int64_t size) {
    size_t i = extents->shape.n_dim++;
    ls__tensor_extent__init(&extents->extents[i]);
    extents->extents[i].size = size;
    extents->dims[i] = &extents->extents[i];
}

/* unknown: before the extents of shape an axis of a size that is not known, -1. */
static void fill_extents(struct extents *extents, bool unknown, const ls_shape *shape) {
    ls__tensor_shape__init(&extents->shape);
    extents->shape.dim = extents->dims;
    if (unknown) add_extent(extents, -1);
    for (int i = 0; i < shape->rank; i++) add_extent(extents, shape->dims[i]);
}

/* The parts of a message that is about to be packed. */
struct parts {
    Ls__Event event;
    Ls__SourceMetadata source;
    Ls__Summary summary;
    Ls__SummaryValue value, *values[1];
    Ls__SummaryMetadata metadata;
    Ls__PluginData plugin;
    Ls__Tensor tensor;
    struct extents shape;
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
    fill_extents(&parts->shape, false, &event->shape);
    parts->tensor.tensor_shape = &parts->shape.shape;
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

/* ---- graphs ---- */

/* A node that is about to be packed, with its one attribute: the shape of its output. */
struct node_parts {
    Ls__GraphNode node;
    Ls__AttributePair pair, *pairs[1];
    Ls__Attribute attribute;
    Ls__AttributeList list;
    struct extents shape;
    Ls__TensorShape *shapes[1];
};

static char shapes_key[] = "_output_shapes";

/* The number of examples is not known: -1. */
static void fill_output(struct node_parts *parts, const ls_shape *output) {
    fill_extents(&parts->shape, true, output);
    parts->shapes[0] = &parts->shape.shape;
    ls__attribute_list__init(&parts->list);
    parts->list.shape = parts->shapes;
    parts->list.n_shape = 1;
    ls__attribute__init(&parts->attribute);
    parts->attribute.list = &parts->list;
    ls__attribute_pair__init(&parts->pair);
    parts->pair.key = shapes_key;
    parts->pair.value = &parts->attribute;
    parts->pairs[0] = &parts->pair;
}

static void fill_node(struct node_parts *parts, const struct ls_event_node *node) {
    ls__graph_node__init(&parts->node);
    fill_output(parts, &node->output);
    parts->node.name = (char *)node->name;
    parts->node.op = (char *)node->op;
    parts->node.input = (char **)node->inputs;
    parts->node.n_input = node->input_count;
    parts->node.attr = parts->pairs;
    parts->node.n_attr = 1;
}

static ls_status fill_graph(Ls__Event *event, const struct ls_event *given) {
    size_t count = given->node_count;
    LS_CLEANUP(ls_free_pointer) struct node_parts *parts = ls_alloc_array(count, sizeof(*parts));
    LS_CLEANUP(ls_free_pointer) Ls__GraphNode **list = ls_alloc_array(count, sizeof(Ls__GraphNode *));
    if (!parts || !list) return ls_fail_memory("a graph", count * sizeof(*parts));
    for (size_t i = 0; i < count; i++) {
        fill_node(&parts[i], &given->nodes[i]);
        list[i] = &parts[i].node;
    }
    Ls__Graph graph = LS__GRAPH__INIT;
    Ls__GraphVersions versions = LS__GRAPH_VERSIONS__INIT;
    versions.producer = 1;
    graph.versions = &versions;
    graph.node = list;
    graph.n_node = count;
    event->what_case = LS__EVENT__WHAT_GRAPH_DEF;
    event->graph_def.len = ls__graph__get_packed_size(&graph);
    event->graph_def.data = ls_alloc(event->graph_def.len);
    if (!event->graph_def.data) return ls_fail_memory("a graph", event->graph_def.len);
    (void)ls__graph__pack(&graph, event->graph_def.data);
    return LS_OK;
}

/* ---- events ---- */

static ls_status pack(const Ls__Event *event, uint8_t **bytes, size_t *size) {
    size_t length = ls__event__get_packed_size(event);
    *bytes = ls_alloc(length);
    if (!*bytes) return ls_fail_memory("an event", length);
    *size = ls__event__pack(event, *bytes);
    return LS_OK;
}

ls_status ls_event_pack(const struct ls_event *event, uint8_t **bytes, size_t *size) {
    struct parts parts = {0};
    ls_status status = LS_OK;
    ls__event__init(&parts.event);
    parts.event.wall_time = event->wall_time;
    parts.event.step = event->step;
    if (event->nodes)
        status = fill_graph(&parts.event, event);
    else if (event->tag)
        status = fill_summary(&parts, event);
    else
        fill_version(&parts);
    if (!status) status = pack(&parts.event, bytes, size);
    ls_free(parts.strings);
    if (event->nodes) ls_free(parts.event.graph_def.data);
    return status;
}

/* ---- back ---- */

ls_status ls_event_read(const uint8_t *bytes, size_t size, char tag[LS_EVENT_TAG], int64_t *step) {
    bool short_of_memory = false;
    ProtobufCAllocator allocator = {ls_memory_noted, ls_memory_noted_free, &short_of_memory};
    Ls__Event *event = ls__event__unpack(&allocator, size, bytes);
    if (!event && short_of_memory) return ls_fail_memory("an event", size);
    if (!event) return ls_fail(LS_DATA_LOSS, "%zu bytes are no event", size);
    *step = event->step;
    tag[0] = 0;
    if (event->what_case == LS__EVENT__WHAT_SUMMARY && event->summary->n_value)
        (void)snprintf(tag, LS_EVENT_TAG, "%s", event->summary->value[0]->tag);
    ls__event__free_unpacked(event, &allocator);
    return LS_OK;
}
