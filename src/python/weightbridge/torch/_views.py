"""Which part of which parameter a framework's export makes of it, without computing anything.

The export runs on the meta device; what it gives are views, and a view knows its storage, its offset
and its strides. Copies that only make a view dense (`contiguous`, `clone`) are left out. An export
that computes, concatenates or copies shows as a tensor whose storage is no parameter's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .._errors import Unsupported

Export = Callable[[dict[str, torch.Tensor]], Mapping[str, Any] | Iterable[tuple[str, Any]]]


@dataclasses.dataclass(frozen=True)
class View:
    """Checkpoint tensor element (i0, ...) is element offset + sum(i * stride) of the parameter."""

    parameter: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    stride: tuple[int, ...]


class _NoCopies(TorchFunctionMode):
    """A copy is its original."""

    _SAME = (torch.Tensor.contiguous, torch.Tensor.clone, torch.clone)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in self._SAME:
            return args[0]
        return func(*args, **(kwargs or {}))


def views_of(
    tensors: Mapping[str, torch.Tensor], export: Export | None, *, strict: bool = True
) -> dict[str, View]:
    """`tensors`: the worker's own names. `strict`: refuse what is no view; else its parameter is
    empty."""
    metas: dict[str, torch.Tensor] = {}
    owners: dict[int, str] = {}
    same: dict[int, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if id(tensor) not in same:
            same[id(tensor)] = torch.empty(
                tuple(tensor.shape), dtype=tensor.dtype, device="meta"
            )
        metas[name] = same[id(tensor)]
        owners.setdefault(metas[name].untyped_storage()._cdata, name)
    given: Any = dict(metas)
    if export is not None:
        with _NoCopies(), torch.no_grad():
            exported = export(given)
            given = dict(exported.items() if isinstance(exported, Mapping) else exported)
        changed = [name for name, meta in metas.items() if meta._version != 0]
        if changed:  # it may have been a copy's change, which is not told from the original's
            raise Unsupported(
                f"the export changes {changed[0]}, or a copy of it, in place: return new tensors, or "
                "learn the layout by probing the import instead (weightbridge.probe)",
                tensor=changed[0],
            )
    found = {}
    for name, value in given.items():
        owner = owners.get(value.untyped_storage()._cdata, "")
        original = metas.get(owner)
        if original is None or original.dtype != value.dtype:
            if strict:
                raise Unsupported(
                    f"the export makes {name} of its parameters by more than views; learn the "
                    "layout by probing the import instead (weightbridge.probe)",
                    tensor=name,
                )
            owner = ""
        found[name] = View(
            owner, value.dtype, tuple(value.shape), value.storage_offset(), tuple(value.stride())
        )
    return found
