"""Worker layouts: which box of which checkpoint tensor lies where in a worker's buffers."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from . import _weightbridge as native
from ._checkpoint import Table
from ._errors import InvalidArgument, Mismatch
from ._tensors import Span, dtype_of, int64s, span_of, writable
from ._types import DType, ExtraKind, MemoryKind, Role


@dataclasses.dataclass(frozen=True)
class Buffer:
    name: str
    dtype: DType
    shape: tuple[int, ...]
    data: int
    """Address; 0: no memory yet."""
    bytes: int


@dataclasses.dataclass(frozen=True)
class Piece:
    """Element (i0, i1, ...) of the box lies at byte offset + i0 * stride[0] + i1 * stride[1] + ...
    of the buffer."""

    tensor: str
    buffer: int
    start: tuple[int, ...]
    count: tuple[int, ...]
    step: tuple[int, ...]
    offset: int
    stride: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Extra:
    name: str
    buffer: int
    kind: ExtraKind
    offset: int
    bytes: int


class Layout:
    """What one worker holds or needs, and where.

    A layout keeps the tensors alive that it is bound to.
    """

    def __init__(self, raw: native.Layout, table: Table) -> None:
        self._raw = raw
        self.table = table
        self._tensors: dict[int, Any] = {}

    @staticmethod
    def create(table: Table) -> Layout:
        """An empty layout."""
        return Layout(native.Layout.create(table._raw), table)

    @staticmethod
    def from_rules(table: Table, model_dir: str | os.PathLike[str], spec: str, rank: int) -> Layout:
        """Of `rank` by the sharding rules of a framework, as "vllm:tp=4". No memory yet."""
        raw = native.Layout.from_rules(table._raw, os.fspath(model_dir), spec, rank)
        return Layout(raw, table)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Layout:
        """Of a file that `save` or `weightbridge layout --out` wrote. No memory yet."""
        table, raw = native.Layout.load(os.fspath(path))
        return Layout(raw, Table(table))

    def add_buffer(
        self,
        name: str,
        data: Any = None,
        *,
        dtype: Any = None,
        shape: Sequence[int] | None = None,
    ) -> int:
        """A buffer over a tensor's memory (torch or numpy), or with `dtype` and `shape` one without
        memory. Gives its index. A tensor whose dimensions lie permuted in memory becomes the dense
        array that they lie in; offsets and strides of pieces count in its memory."""
        if data is None:
            if dtype is None or shape is None:
                raise InvalidArgument(f"buffer {name}: a tensor, or dtype and shape", tensor=name)
            sizes = int64s(shape, f"the shape of buffer {name}", name)
            return self._raw.add_buffer(name, int(dtype_of(dtype)), sizes, 0, 0)
        span = span_of(data, name)
        dense = span.shape if span.row_major() else span.dense()
        if dense is None:
            raise InvalidArgument(
                f"buffer {name}: its elements lie with gaps; give the tensor it is a view of",
                tensor=name,
            )
        index = self._raw.add_buffer(name, int(span.dtype), list(dense), span.data, span.bytes)
        self._tensors[index] = span.owner
        return index

    def add_piece(
        self,
        tensor: str,
        buffer: int,
        *,
        start: Sequence[int] | None = None,
        count: Sequence[int] | None = None,
        step: Sequence[int] | None = None,
        offset: int = 0,
        stride: Sequence[int] | None = None,
    ) -> None:
        """A box of `tensor` inside a buffer. Boxes count elements, offset and strides bytes. None:
        the whole tensor, dense, row-major."""
        first, size, pace, strides = (
            None if v is None else int64s(v, f"a piece of {tensor}", tensor)
            for v in (start, count, step, stride)
        )
        (first_byte,) = int64s([offset], f"the offset of a piece of {tensor}", tensor)
        self._raw.add_piece(tensor, buffer, first, size, pace, first_byte, strides)

    def add_tensor(self, name: str, data: Any = None) -> int:
        """A buffer that holds the whole of checkpoint tensor `name`, over a tensor's memory. Gives
        its index. Any strides do, as long as the memory has no gaps."""
        if data is None:
            return self._raw.add_tensor(name, 0, 0)
        span = span_of(data, name)
        self._expect(name, span)
        index = self.add_buffer(name, data)
        self.add_piece(
            name, index, start=[0] * len(span.shape), count=span.shape, stride=span.stride
        )
        return index

    def add_extra(self, buffer: int, offset: int, bytes: int, kind: ExtraKind, name: str) -> None:
        """Names bytes of a buffer that no piece covers."""
        self._raw.add_extra(buffer, offset, bytes, int(kind), name)

    def bind(self, buffer: int | str, data: Any) -> None:
        """Gives a buffer without memory the memory of a tensor, which is dense and row-major."""
        buffers = self.buffers()
        if isinstance(buffer, str):
            found = [i for i, b in enumerate(buffers) if b.name == buffer]
            if not found:
                raise InvalidArgument(f"the layout has no buffer {buffer}", tensor=buffer)
            buffer = found[0]
        want = buffers[buffer]
        span = span_of(data, want.name)
        if span.dtype != want.dtype or span.shape != want.shape or not span.row_major():
            raise Mismatch(
                f"buffer {want.name} is {want.dtype.name} {list(want.shape)}, row-major; the tensor "
                f"is {span.dtype.name} {list(span.shape)} with byte strides {list(span.stride)}",
                tensor=want.name,
            )
        self._raw.bind(buffer, span.data, span.bytes)
        self._tensors[buffer] = span.owner

    def allocate(
        self,
        kind: MemoryKind = MemoryKind.SHARED,
        *,
        huge_pages: bool = False,
        name: str | None = None,
    ) -> None:
        """Memory of the library for all buffers that have none yet."""
        self._raw.allocate(int(kind), huge_pages, name)

    def check(self, role: Role) -> None:
        """Pieces inside their tensors and buffers and, for a receiver, no byte written twice."""
        self._raw.check(int(role))

    def buffers(self) -> list[Buffer]:
        return [
            Buffer(name, DType(dtype), tuple(shape), data, size)
            for name, dtype, shape, data, size in self._raw.buffers()
        ]

    def pieces(self) -> list[Piece]:
        return [
            Piece(t, b, tuple(start), tuple(count), tuple(step), offset, tuple(stride))
            for t, b, start, count, step, offset, stride in self._raw.pieces()
        ]

    def extras(self) -> list[Extra]:
        return [Extra(n, b, ExtraKind(k), o, size) for n, b, k, o, size in self._raw.extras()]

    def numpy(self, buffer: int) -> Any:
        """A buffer's memory as a numpy array of its shape, without a copy. Types that numpy lacks
        are unsigned integers of their width. The memory is the layout's: keep that."""
        import ctypes

        import numpy

        want = self.buffers()[buffer]
        if want.data == 0:
            raise InvalidArgument(f"buffer {want.name} has no memory yet", tensor=want.name)
        plain = {
            DType.BOOL: "?", DType.U8: "u1", DType.I8: "i1", DType.I16: "i2", DType.U16: "u2",
            DType.F16: "f2", DType.BF16: "u2", DType.I32: "i4", DType.U32: "u4", DType.F32: "f4",
            DType.I64: "i8", DType.U64: "u8", DType.F64: "f8", DType.C64: "c8",
        }
        memory = (ctypes.c_ubyte * want.bytes).from_address(want.data)
        memory._weightbridge_layout = self  # type: ignore[attr-defined]
        flat: Any = numpy.frombuffer(memoryview(memory), dtype=plain.get(want.dtype, "u1"))
        size = 1
        for n in want.shape:
            size *= n
        return flat[:size].reshape(want.shape) if size <= flat.size else flat

    @property
    def digest(self) -> str:
        """Over the whole mapping: table, buffers, pieces, extras; not where the memory lies."""
        return self._raw.digest()

    def save(self, path: str | os.PathLike[str]) -> None:
        self._raw.save(os.fspath(path))

    @staticmethod
    def diff(a: Layout, b: Layout) -> dict[str, Any]:
        """Where two layouts of one worker differ, in coordinates of the checkpoint:
        {"equal": ..., "differences": [...]}."""
        result: dict[str, Any] = json.loads(native.Layout.diff(a._raw, b._raw))
        return result

    def _require_writable(self) -> None:
        for index, tensor in self._tensors.items():
            if not writable(tensor):
                name = self.buffers()[index].name
                raise InvalidArgument(f"buffer {name} is read-only memory", tensor=name)

    def _expect(self, name: str, span: Span) -> None:
        for tensor in self.table.tensors():
            if tensor.name == name:
                if tensor.dtype != span.dtype or tensor.shape != span.shape:
                    raise Mismatch(
                        f"{name} is {tensor.dtype.name} {list(tensor.shape)} in the checkpoint; the "
                        f"tensor given is {span.dtype.name} {list(span.shape)}",
                        tensor=name,
                    )
                return
        raise InvalidArgument(f"the checkpoint has no tensor {name}", tensor=name)

    def __repr__(self) -> str:
        return f"<weightbridge.Layout of {len(self.buffers())} buffers>"
