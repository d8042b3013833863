"""Where the elements of a torch or numpy tensor lie, without importing either before its time."""

from __future__ import annotations

import dataclasses
import math
import operator
import sys
from collections.abc import Iterable
from typing import Any

from ._errors import InvalidArgument, Unsupported
from ._types import DType, itemsize

_NUMPY = {
    "bool": DType.BOOL, "uint8": DType.U8, "int8": DType.I8, "int16": DType.I16,
    "uint16": DType.U16, "float16": DType.F16, "bfloat16": DType.BF16, "int32": DType.I32,
    "uint32": DType.U32, "float32": DType.F32, "int64": DType.I64, "uint64": DType.U64,
    "float64": DType.F64, "complex64": DType.C64, "float8_e4m3fn": DType.F8_E4M3,
    "float8_e5m2": DType.F8_E5M2, "float8_e8m0fnu": DType.F8_E8M0,
    "float8_e4m3fnuz": DType.F8_E4M3_FNUZ, "float8_e5m2fnuz": DType.F8_E5M2_FNUZ,
}


def int64s(values: Iterable[Any], what: str, tensor: str) -> list[int]:
    """Numbers as the library takes them: whole ones below 2^63."""
    try:
        numbers = [operator.index(value) for value in values]
    except TypeError as error:
        raise InvalidArgument(f"{what} is of whole numbers: {error}", tensor=tensor) from error
    if any(not -(1 << 63) <= number < 1 << 63 for number in numbers):
        raise InvalidArgument(f"{what} has a number beyond 64 bits: {numbers}", tensor=tensor)
    return numbers


def is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def dtype_of(value: Any) -> DType:
    """The dtype of a tensor, of torch, of numpy, or by its safetensors name."""
    if isinstance(value, DType):
        return value
    given = getattr(value, "dtype", value)
    if isinstance(given, str) and given in DType.__members__:
        return DType[given]
    name = getattr(given, "name", None) or str(given)
    if isinstance(given, type):
        name = given.__name__
    found = _NUMPY.get(name.removeprefix("torch."))
    if found is None:
        raise Unsupported(f"elements of type {name} have no place in a checkpoint")
    return found


@dataclasses.dataclass(frozen=True)
class Span:
    """A tensor's memory. Strides count bytes."""

    data: int
    dtype: DType
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    owner: object

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """From the first byte to the last."""
        if self.elements == 0:
            return 0
        reach = sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))
        return reach + itemsize(self.dtype)

    def dense(self) -> tuple[int, ...] | None:
        """The shape of its memory as a row-major array without gaps (dimensions in the order in
        which they lie); None when there are gaps or overlaps."""
        pairs = [(s, n) for n, s in zip(self.shape, self.stride, strict=True) if n != 1]
        pairs.sort(reverse=True)
        expected = itemsize(self.dtype)
        for s, n in reversed(pairs):
            if s != expected:
                return None
            expected *= n
        return tuple(n for _, n in pairs)

    def row_major(self) -> bool:
        expected = itemsize(self.dtype)
        for n, s in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if n != 1 and s != expected:
                return False
            expected *= n
        return True


def span_of(value: Any, name: str = "tensor") -> Span:
    """The memory of a torch tensor in host memory or of a numpy array. Of a parameter: its data."""
    if is_torch(value):
        if hasattr(value, "to_local") and hasattr(value, "placements"):
            raise InvalidArgument(
                f"{name} is a DTensor: weightbridge.torch.layout() says which part of it lies here",
                tensor=name,
            )
        if value.device.type != "cpu":
            raise Unsupported(
                f"{name} lies on {value.device}; this build moves host memory", tensor=name
            )
        if value.layout != sys.modules["torch"].strided:
            raise Unsupported(f"{name} is a tensor of layout {value.layout}", tensor=name)
        if value.is_neg() or value.is_conj():  # lazily: the memory holds other values
            raise Unsupported(f"{name} is a negated or conjugated view: resolve it first", tensor=name)
        size = value.element_size()
        return Span(
            value.data_ptr(),
            dtype_of(value),
            tuple(value.shape),
            tuple(s * size for s in value.stride()),
            value.detach(),
        )
    interface = getattr(value, "__array_interface__", None)
    if interface is None:
        raise InvalidArgument(
            f"{name} is a {type(value).__name__}, no torch tensor and no numpy array", tensor=name
        )
    if any(s < 0 for s in value.strides):
        raise Unsupported(f"{name} runs backwards in memory", tensor=name)
    return Span(interface["data"][0], dtype_of(value), value.shape, tuple(value.strides), value)


def writable(value: Any) -> bool:
    return is_torch(value) or not value.__array_interface__["data"][1]
