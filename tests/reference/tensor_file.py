"""Reads and writes safetensors with NumPy only, so that developers need to install only PyTorch."""

import json
import struct

import numpy as np

_TYPES = {"F32": np.float32, "I32": np.int32}
_NAMES = {np.dtype(numpy_type): name for name, numpy_type in _TYPES.items()}


def write(path, tensors, metadata=None):
    """`tensors`: name -> array of float32 or int32. Equal content gives equal bytes."""
    header, offset = {"__metadata__": metadata or {}}, 0
    for name in sorted(tensors):
        array = tensors[name]
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(np.ascontiguousarray(tensors[name]).tobytes())


def read(path):
    """name -> array."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + position for position in entry["data_offsets"])
        tensors[name] = np.frombuffer(content[begin:end], _TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors
