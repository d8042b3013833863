"""Learning a layout from a worker's own loader."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import _weightbridge as native
from ._checkpoint import Table
from ._errors import InvalidArgument, Mismatch
from ._layout import Layout
from ._tensors import Span, is_torch, span_of, writable
from ._types import DType, itemsize

Buffers = Callable[[], Mapping[str, Any] | Iterable[tuple[str, Any]]]

_LOAD, _RELOAD, _DONE = 1, 2, 3


@dataclasses.dataclass(frozen=True)
class Homes:
    """Where the elements of one checkpoint tensor went."""

    name: str
    elements: int
    no_home: int
    one_home: int
    more_homes: int
    cast: int
    """Of those without a home: found in another dtype."""


@dataclasses.dataclass(frozen=True)
class Range:
    """`count` ranges of bytes of one buffer that are no copies, `pitch` bytes apart."""

    buffer: str
    kind: str
    """cast, untouched, constant or computed."""
    offset: int
    bytes: int
    count: int
    pitch: int


_KINDS = {1: "copied", 2: "cast", 3: "untouched", 4: "constant", 5: "computed"}


class Weights:
    """The probe tensors of one pass: iterates (name, tensor), and is a mapping for loaders that ask
    by name. Tensors are views with stride 0: a loader that needs dense ones makes copies."""

    def __init__(self, probe: native.Probe, table: Table, framework: str) -> None:
        self._probe = probe
        self._names = {t.name: i for i, t in enumerate(table.tensors())}
        self._framework = framework

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.items())

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def keys(self) -> list[str]:
        return list(self._names)

    def items(self) -> Iterator[tuple[str, Any]]:
        for name, index in self._names.items():
            yield name, self._tensor(index)

    def __getitem__(self, name: str) -> Any:
        return self._tensor(self._names[name])

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._names else default

    def _tensor(self, index: int) -> Any:
        _, dtype, array = self._probe.view(index)
        return (_torch_view if self._framework == "torch" else _numpy_view)(array, DType(dtype))


def _torch_view(array: Any, dtype: DType) -> Any:
    from torch.utils.dlpack import from_dlpack

    return from_dlpack(array).view(torch_dtype(dtype))


def torch_dtype(dtype: DType) -> Any:
    import torch

    names = {
        DType.BOOL: "bool", DType.U8: "uint8", DType.I8: "int8", DType.F8_E5M2: "float8_e5m2",
        DType.F8_E4M3: "float8_e4m3fn", DType.F8_E8M0: "float8_e8m0fnu", DType.I16: "int16",
        DType.U16: "uint16", DType.F16: "float16", DType.BF16: "bfloat16", DType.I32: "int32",
        DType.U32: "uint32", DType.F32: "float32", DType.I64: "int64", DType.U64: "uint64",
        DType.F64: "float64", DType.C64: "complex64", DType.F8_E4M3_FNUZ: "float8_e4m3fnuz",
        DType.F8_E5M2_FNUZ: "float8_e5m2fnuz",
    }
    return getattr(torch, names[dtype])


class _Dlpack:
    """A DLPack capsule as numpy wants it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _numpy_view(array: Any, dtype: DType) -> Any:
    import numpy

    plain = {
        DType.BOOL: "?", DType.I8: "i1", DType.I16: "i2", DType.F16: "f2", DType.I32: "i4",
        DType.F32: "f4", DType.I64: "i8", DType.F64: "f8", DType.C64: "c8",
    }
    view = numpy.from_dlpack(_Dlpack(array))
    if dtype in plain:
        return view.view(plain[dtype])
    try:
        import ml_dtypes
    except ImportError:
        return view  # unsigned integers of the same width
    names = {
        DType.BF16: "bfloat16", DType.F8_E4M3: "float8_e4m3fn", DType.F8_E5M2: "float8_e5m2",
        DType.F8_E8M0: "float8_e8m0fnu", DType.F8_E4M3_FNUZ: "float8_e4m3fnuz",
        DType.F8_E5M2_FNUZ: "float8_e5m2fnuz",
    }
    return view.view(getattr(ml_dtypes, names[dtype])) if dtype in names else view


class Probed:
    """What a probing found. `layout` is for Publisher and Receiver."""

    def __init__(self, probe: native.Probe, table: Table, owners: list[Any]) -> None:
        self.table = table
        self.layout = Layout(probe.layout(), table)
        self.layout._tensors.update(enumerate(owners))
        self.summary: dict[str, Any] = probe.summary()
        names = [b.name for b in self.layout.buffers()]
        self.ranges = [Range(names[b], _KINDS[k], *rest) for b, k, *rest in probe.ranges()]
        self.homes = {h[0]: Homes(*h) for h in probe.homes(table._raw)}
        self.aliases: dict[str, tuple[str, int]] = {a: (o, n) for a, o, n in probe.aliases()}
        """name -> (buffer it lies in, byte offset there)."""
        self.report: dict[str, Any] = json.loads(probe.report())

    @property
    def homeless(self) -> list[Homes]:
        """Checkpoint tensors with elements that no buffer holds as they are: a pull cannot fill
        what the loader makes of them."""
        return [h for h in self.homes.values() if h.no_home]

    @property
    def computed(self) -> list[Range]:
        """Bytes that the loader makes of weights: the engine must make them anew after a pull."""
        return [r for r in self.ranges if r.kind in ("computed", "cast")]

    def require_complete(self) -> Probed:
        """Raises unless a pull alone brings every element of every checkpoint tensor."""
        if self.homeless:
            worst = max(self.homeless, key=lambda h: h.no_home)
            raise Mismatch(
                f"{len(self.homeless)} checkpoint tensors have elements that no buffer holds: "
                f"{worst.no_home} of {worst.elements} of {worst.name}, for one. Pull these tensors "
                "into buffers of their own and give them to the loader, or list the buffers that "
                "hold them",
                tensor=worst.name,
            )
        return self


def _list(buffers: Buffers) -> dict[str, Any]:
    listed = buffers()
    pairs = listed.items() if isinstance(listed, Mapping) else listed
    found: dict[str, Any] = {}
    for name, tensor in pairs:
        if name in found:
            raise InvalidArgument(f"two buffers are called {name}", tensor=name)
        found[name] = tensor
    return found


def _dense(span: Span, name: str, tensor: Any) -> Span:
    """The span of memory without gaps that holds the tensor: its own, or its whole storage."""
    shape = span.shape if span.row_major() else span.dense()
    if shape is not None:
        return dataclasses.replace(span, shape=shape, stride=())
    if is_torch(tensor):
        storage = tensor.untyped_storage()
        data, size = storage.data_ptr(), storage.nbytes()
    else:
        base = tensor
        while getattr(base, "base", None) is not None:
            base = base.base
        data, size = base.__array_interface__["data"][0], base.nbytes
    count = size // itemsize(span.dtype)
    return dataclasses.replace(span, data=data, shape=(count,), stride=())


def _spans(buffers: Buffers) -> dict[str, Span]:
    # A tensor without elements has no memory: what should be in it shows as having no home.
    listed = _list(buffers)
    spans = {name: span_of(tensor, name) for name, tensor in listed.items()}
    return {n: _dense(s, n, listed[n]) for n, s in spans.items() if s.elements}


def probe(
    load: Callable[[Weights], object],
    table: Table,
    buffers: Buffers,
    *,
    restore: str = "backup",
    reload: Callable[[], object] | None = None,
    threads: int = 0,
    backup_dir: str | os.PathLike[str] | None = None,
    max_bytes: int = 0,
    seed: int = 0,
    framework: str | None = None,
) -> Probed:
    """Learns the layout of a worker from its own loader.

    `load(weights)` loads a checkpoint: it is called a few times, with other values each time.
    `weights` iterates (name, tensor) and is a mapping. `buffers()` lists the worker's live tensors
    (a dict, or pairs); it is called again after each pass, and a tensor that moved is an error.

    Until this returns or raises, the tensors hold probe values; then they are as before, whatever
    happened: `restore="backup"` copies them aside first (in memory, or in `backup_dir`);
    `restore="reload"` calls `reload()` instead, which loads the real weights.
    """
    if restore not in ("backup", "reload"):
        raise InvalidArgument(f'restore is "backup" or "reload", not {restore!r}')
    if (restore == "reload") != (reload is not None):
        raise InvalidArgument("restore='reload' and reload=... go together")
    if not callable(buffers):
        raise InvalidArgument("buffers is a function: it is called again after each pass")
    spans = _spans(buffers)
    if not spans:
        raise InvalidArgument("buffers() lists no tensor that has elements")
    for name, span in spans.items():
        if not writable(span.owner):
            raise InvalidArgument(f"buffer {name} is read-only memory", tensor=name)
    if framework is None:
        torch = sys.modules.get("torch")
        owners = [s.owner for s in spans.values()]
        framework = "torch" if torch is not None and any(map(is_torch, owners)) else "numpy"
    native_probe = native.Probe.create(
        table._raw, 1 if restore == "backup" else 2, threads,
        None if backup_dir is None else os.fspath(backup_dir), max_bytes, seed,
    )
    for name, span in spans.items():
        size = span.elements * itemsize(span.dtype)
        native_probe.add_buffer(name, int(span.dtype), list(span.shape), span.data, size)
    try:
        while True:
            kind, _, _, _ = native_probe.begin_pass()
            if kind == _DONE:
                break
            if kind == _LOAD:
                _run(load, Weights(native_probe, table, framework))
            elif kind == _RELOAD and reload is not None:
                reload()
            now = _spans(buffers)
            native_probe.end_pass(
                [(n, s.data, s.elements * itemsize(s.dtype)) for n, s in now.items()]
            )
    except BaseException as error:
        _put_back(native_probe, reload, error)
        raise
    names = {b.name for b in Layout(native_probe.layout(), table).buffers()}
    return Probed(native_probe, table, [spans[n].owner for n in spans if n in names])


def _run(load: Callable[[Weights], object], weights: Weights) -> None:
    if weights._framework == "torch":
        import torch

        with torch.no_grad():
            load(weights)
    else:
        load(weights)


def _put_back(
    native_probe: native.Probe, reload: Callable[[], object] | None, error: BaseException
) -> None:
    """The weights as before. The error that ended the probing is the one to hear of."""
    try:
        if native_probe.abort() and reload is not None:
            reload()
    except Exception as second:
        logging.getLogger("weightbridge.probe").error("the weights are not as before: %s", second)
        if hasattr(error, "add_note"):
            error.add_note(f"the weights could not be put back: {second}")
