"""Memory of Python's objects without a copy: the buffer protocol, __array_interface__ and DLPack."""
from __future__ import annotations

import ctypes
from ctypes import (POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_uint8, c_uint16, c_uint32, c_uint64,
                    c_void_p)
from typing import Any, Optional, Tuple

from .errors import LockstepError, Status

# ls_dtype
FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT32, INT64, UINT8, INT8, BOOL = range(9)
CODES = {"float32": FLOAT32, "float64": FLOAT64, "float16": FLOAT16, "bfloat16": BFLOAT16, "int32": INT32,
         "int64": INT64, "uint8": UINT8, "int8": INT8, "bool": BOOL}
SIZES = {FLOAT32: 4, FLOAT64: 8, FLOAT16: 2, BFLOAT16: 2, INT32: 4, INT64: 8, UINT8: 1, INT8: 1, BOOL: 1}
NAMES = {code: name for name, code in CODES.items()}


def refuse(message: str) -> LockstepError:
    return LockstepError(Status.INVALID_ARGUMENT, message)


def dtype_code(name: str) -> int:
    try:
        return CODES[str(name)]
    except KeyError:
        raise refuse(f"type {name} is none of {', '.join(CODES)}") from None


class Array:
    """Memory of count elements of a type. Holds what keeps it alive, and is an argument of the library's functions."""
    __slots__ = ("_as_parameter_", "count", "dtype", "shape", "writable", "owner")

    def __init__(self, address: int, shape: Tuple[int, ...], dtype: int, writable: bool, owner: Any):
        self._as_parameter_, self.shape, self.dtype = address, tuple(shape), dtype
        self.writable, self.owner = writable, owner
        self.count = 1
        for extent in self.shape:
            self.count *= extent

    @property
    def bytes(self) -> int:
        return self.count * SIZES[self.dtype]


# ---- The buffer protocol -------------------------------------------------------------------------------------------


class _PyBuffer(Structure):
    """Py_buffer of CPython's ABI."""
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
                ("ndim", c_int), ("format", c_char_p), ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
                ("suboffsets", POINTER(c_ssize_t)), ("internal", c_void_p)]

    def __del__(self):
        if self.obj:
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self))


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, c_void_p, c_int], c_int
ctypes.pythonapi.PyBuffer_Release.argtypes, ctypes.pythonapi.PyBuffer_Release.restype = [c_void_p], None

_FORMATS = {"f": "float", "d": "float", "e": "float", "b": "int", "h": "int", "i": "int", "l": "int", "q": "int",
            "n": "int", "B": "uint", "H": "uint", "I": "uint", "L": "uint", "Q": "uint", "N": "uint", "?": "bool",
            "c": "uint"}


def _type_name(format_: str, itemsize: int) -> str:
    """"<i4"-like formats of struct and of NumPy, as a type's name."""
    if format_[:1] in (">", "!") and itemsize > 1:
        raise refuse(f"an array of format {format_!r} is big-endian; give it in the machine's order")
    kind = _FORMATS.get(format_.lstrip("@=<>!|"))
    return "bool" if kind == "bool" else f"{kind or format_}{itemsize * 8}"


def _from_buffer(thing: Any, dtype: Optional[str]) -> Array:
    try:
        view = memoryview(thing)
    except TypeError:
        raise refuse(f"{type(thing).__name__} gives no memory: an object with the buffer protocol, __array_interface__ or "
                     f"DLPack is needed") from None
    if not view.c_contiguous:
        raise refuse("the array is not contiguous in C's order; copy it first")
    buffer = _PyBuffer()
    if _get_buffer(thing, ctypes.byref(buffer), 0):
        raise refuse("the object gives no buffer")
    shape, itemsize = view.shape, view.itemsize
    if dtype and itemsize == 1:  # bytes that hold elements of the type
        itemsize = SIZES[dtype_code(dtype)]
        if view.nbytes % itemsize:
            raise refuse(f"{view.nbytes} bytes are no whole number of {dtype}, which has {itemsize}")
        shape = (view.nbytes // itemsize,)
    return _checked(buffer.buf or 0, shape, dtype or _type_name(view.format, itemsize), itemsize, not view.readonly,
                    (thing, buffer))


# ---- __array_interface__ -------------------------------------------------------------------------------------------

_KINDS = {"f": "float", "i": "int", "u": "uint", "b": "bool"}


def _from_interface(thing: Any, dtype: Optional[str]) -> Array:
    interface = thing.__array_interface__
    typestr, shape = interface["typestr"], tuple(interface["shape"])
    if not typestr[2:].isdigit():  # a date has a unit there
        raise refuse(f"an array of type {typestr!r} is of none of {', '.join(CODES)}")
    size = int(typestr[2:])
    if typestr[0] == ">":
        raise refuse(f"an array of type {typestr!r} is big-endian; give it in the machine's order")
    if not _contiguous(shape, interface.get("strides"), size):
        raise refuse("the array is not contiguous in C's order; copy it first")
    own = str(getattr(thing, "dtype", ""))  # bfloat16 of ml_dtypes is a void type of two bytes
    name = own if own in CODES else "bool" if typestr[1] == "b" else f"{_KINDS.get(typestr[1], typestr[1])}{size * 8}"
    address, readonly = interface["data"]
    return _checked(address, shape, dtype or name, size, not readonly, (thing, interface))


def _contiguous(shape, strides, size: int) -> bool:
    if strides is None or 0 in shape:
        return True
    want = size
    for extent, stride in zip(reversed(shape), reversed(tuple(strides))):
        if extent != 1 and stride != want:
            return False
        want *= extent
    return True


# ---- DLPack --------------------------------------------------------------------------------------------------------


class _DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_size_t)]


class _DLVersioned(Structure):
    """DLManagedTensorVersioned of DLPack 1.0."""
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", _DLTensor)]


_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_capsule.argtypes, _capsule.restype = [ctypes.py_object, c_char_p], c_void_p
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes, _capsule_is.restype = [ctypes.py_object, c_char_p], c_int
_DL_READ_ONLY, _DL_COPIED = 1, 2  # flags
_DL_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
_DL_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


def _take_dlpack(thing: Any) -> Tuple[Any, _DLTensor, bool]:
    """The capsule, its tensor, and whether it may be written. A capsule without a version does not say it: of the objects
    that give such ones those may be written that have operations in place, which JAX's arrays do not."""
    try:
        capsule = thing.__dlpack__(max_version=(1, 0))
    except TypeError:  # it knows no versions
        capsule = thing.__dlpack__()
    if not _capsule_is(capsule, b"dltensor_versioned"):
        tensor = ctypes.cast(_capsule(capsule, b"dltensor"), POINTER(_DLTensor)).contents
        return capsule, tensor, hasattr(type(thing), "__iadd__")
    managed = ctypes.cast(_capsule(capsule, b"dltensor_versioned"), POINTER(_DLVersioned)).contents
    if managed.major != 1:
        raise refuse(f"the array gives a capsule of DLPack {managed.major}.{managed.minor}; this package knows 1.x and those before")
    return capsule, managed.tensor, not managed.flags & (_DL_READ_ONLY | _DL_COPIED)


def _from_dlpack(thing: Any, dtype: Optional[str]) -> Array:
    device, _ = thing.__dlpack_device__()
    if int(device) not in _DL_HOST:
        raise refuse(f"the array is on a device (DLPack's type {int(device)}); collectives add in host memory: copy it there")
    capsule, tensor, writable = _take_dlpack(thing)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    size = tensor.bits * tensor.lanes // 8
    strides = tuple(tensor.strides[i] * size for i in range(tensor.ndim)) if tensor.strides else None
    if not _contiguous(shape, strides, size):
        raise refuse("the array is not contiguous in C's order; copy it first")
    kind = _DL_KINDS.get(tensor.code, f"DLPack's code {tensor.code} of ")
    name = "bool" if kind == "bool" else f"{kind}{tensor.bits}"
    return _checked((tensor.data or 0) + tensor.byte_offset, shape, dtype or name, size, writable, (thing, capsule))


# ---- All of them ---------------------------------------------------------------------------------------------------


def _checked(address: int, shape, dtype: str, itemsize: int, writable: bool, owner: Any) -> Array:
    code = dtype_code(dtype)
    if SIZES[code] != itemsize:
        raise refuse(f"type {dtype} has {SIZES[code]} bytes an element, and the array has {itemsize}")
    return Array(address, shape, code, writable, owner)


def array(thing: Any, dtype: Optional[str] = None) -> Array:
    """The memory of an object. dtype names the type of the elements where the object cannot say it: of bytes, or
    "bfloat16" of two-byte integers."""
    if isinstance(thing, Array):
        return thing
    if hasattr(thing, "__array_interface__"):
        return _from_interface(thing, dtype)
    if hasattr(thing, "__dlpack__"):
        return _from_dlpack(thing, dtype)
    return _from_buffer(thing, dtype)


def output(thing: Any, dtype: Optional[str] = None) -> Array:
    """As array, of an object that may be written."""
    found = array(thing, dtype)
    if not found.writable:
        raise refuse(f"{type(thing).__name__} is read-only; the result has no place there")
    return found
