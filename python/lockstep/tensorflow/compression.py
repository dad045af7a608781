"""Horovod's Compression, and bf16: the type to which float32 is rounded on the wire between hosts, and added in float32."""


class Compression:
    none = None
    fp16 = "fp16"
    bf16 = "bf16"
