"""The tensor table: all checkpoint tensors of a model."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _weightbridge as native
from ._errors import InvalidArgument
from ._tensors import dtype_of, int64s
from ._types import DType


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    name: str
    dtype: DType
    shape: tuple[int, ...]


class Table:
    """All checkpoint tensors of a model, in order of names. Both sides of a job must give equal
    tables."""

    def __init__(self, raw: native.Table) -> None:
        self._raw = raw
        self._tensors: list[TensorInfo] | None = None

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Table:
        """Of a .safetensors file, or of a folder with one or with an index. Reads headers only."""
        return Table(native.Table.open(os.fspath(path)))

    @staticmethod
    def create(tensors: Iterable[TensorInfo | tuple[str, Any, Iterable[int]]]) -> Table:
        """Of (name, dtype, shape)."""
        entries = []
        for tensor in tensors:
            if isinstance(tensor, TensorInfo):
                tensor = (tensor.name, tensor.dtype, tensor.shape)
            name, dtype, shape = tensor
            entries.append((name, int(dtype_of(dtype)), int64s(shape, f"the shape of {name}", name)))
        return Table(native.Table.create(entries))

    def tensors(self) -> list[TensorInfo]:
        if self._tensors is None:
            self._tensors = [
                TensorInfo(name, DType(dtype), tuple(shape))
                for name, dtype, shape in self._raw.tensors()
            ]
        return self._tensors

    def __len__(self) -> int:
        return len(self.tensors())

    def __repr__(self) -> str:
        return f"<weightbridge.Table of {len(self)} tensors>"


def checkpoint(source: Any, *, dtype: Any = None) -> Table:
    """The tensor table of a model, from whatever describes it:

    * a path: a .safetensors file, or a folder that holds safetensors files; a folder with only
      config.json counts as its configuration;
    * a Hugging Face configuration (or its folder): the model is made on the meta device, which
      takes no memory, and named as its checkpoint would be (`dtype`: of the weights, else the
      configuration's);
    * a dict: name -> tensor, or name -> (dtype, shape).
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if os.path.isdir(path) and not any(
            name.endswith((".safetensors", ".safetensors.index.json")) for name in os.listdir(path)
        ):
            from ._transformers import table_of_config, read_config

            return table_of_config(read_config(path), dtype)
        return Table.open(path)
    if isinstance(source, Mapping):
        entries = []
        for name, value in source.items():
            if isinstance(value, tuple):
                if len(value) != 2:
                    raise InvalidArgument(f"{name}: (dtype, shape) or a tensor", tensor=name)
                entries.append((name, value[0], value[1]))
            else:
                entries.append((name, value.dtype, value.shape))
        return Table.create(entries)
    if hasattr(source, "model_type"):
        from ._transformers import table_of_config

        return table_of_config(source, dtype)
    raise InvalidArgument(
        f"a checkpoint is a path, a configuration or a dict, not a {type(source).__name__}"
    )
