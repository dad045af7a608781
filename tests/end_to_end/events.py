"""TensorBoard's event files, read by nothing but the formats' descriptions: TFRecord, and protobuf's wire form."""
import collections
import os
import struct

Value = collections.namedtuple("Value", "tag step plugin dtype shape value")  # value: a number, or bytes, or [bytes]
TYPES = {1: "float32", 2: "float64", 7: "string"}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        body = data[at + 12:at + 12 + length]
        assert check == crc32c(data[at:at + 8]), "%s: length at %d" % (path, at)
        assert len(body) == length, "%s: torn at %d" % (path, at)
        if length < 4096:  # the sums of images take long
            assert struct.unpack_from("<I", data, at + 12 + length)[0] == crc32c(body), "%s: record at %d" % (path, at)
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 128:
            return value, at


def message(data):
    """{field: [values]}"""
    fields, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            size = {1: 8, 5: 4}[key & 7]
            value, at = data[at:at + size], at + size
        fields[key >> 3].append(value)
    return fields


def first(fields, number, default):
    return fields[number][0] if number in fields else default


def value_of(tensor, dtype):
    if dtype == "string":
        return tensor[8]
    content = first(tensor, 4, b"")
    numbers = struct.unpack("<%d%s" % (len(content) // (4 if dtype == "float32" else 8), "f" if dtype == "float32" else "d"),
                            content)
    return numbers[0] if len(numbers) == 1 else numbers


def events(path):
    for number, body in enumerate(records(path)):
        event = message(body)
        if not number:
            assert first(event, 3, b"") == b"brain.Event:2", path
        for summary in event[5]:
            value = message(message(summary)[1][0])
            tensor = message(value[8][0])
            plugin = message(message(value[9][0])[1][0])[1][0].decode()
            shape = [first(message(extent), 1, 0) for extent in message(first(tensor, 2, b""))[2]]
            dtype = TYPES[first(tensor, 1, 0)]
            yield Value(value[1][0].decode(), first(event, 2, 0), plugin, dtype, shape, value_of(tensor, dtype))


Node = collections.namedtuple("Node", "op inputs shape")  # shape: of the output, the batch -1


def extent_of(data):
    size = first(message(data), 1, 0)
    return size - (1 << 64) if size >> 63 else size


def graphs(path):
    """[{name: Node}] of a folder's files, in their order."""
    found = []
    for name in sorted(os.listdir(path)):
        for body in records(os.path.join(path, name)):
            for graph in message(body)[4]:
                nodes = {}
                for node in map(message, message(graph)[1]):
                    [attribute] = [message(pair) for pair in node[5]]
                    assert attribute[1] == [b"_output_shapes"]
                    [shape] = message(message(attribute[2][0])[1][0])[7]
                    nodes[node[1][0].decode()] = Node(node[2][0].decode(), [name.decode() for name in node[3]],
                                                      [extent_of(extent) for extent in message(shape)[2]])
                found.append(nodes)
    return found


def folder(path):
    """All events of a folder's files, in the order of the files' names."""
    return [event for name in sorted(os.listdir(path)) for event in events(os.path.join(path, name))]


def scalars(path):
    """{tag: {step: value}}; nothing is there twice."""
    found = collections.defaultdict(dict)
    for event in folder(path):
        if event.plugin == "scalars":
            assert event.step not in found[event.tag], "%s is twice at step %d" % (event.tag, event.step)
            found[event.tag][event.step] = event.value
    return found
