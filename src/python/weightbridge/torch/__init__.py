"""Layouts of torch models: plain, FSDP2 and other DTensors, Megatron-core.

    layout = weightbridge.torch.layout(model, table)            # what the parameters are, as they are
    mirror = weightbridge.torch.Mirror(model, table)            # in the checkpoint's dtypes
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from .._checkpoint import Table
from .._errors import FailedPrecondition, InvalidArgument, Mismatch, NotCovered
from .._layout import Layout
from .._probe import torch_dtype
from .._tensors import dtype_of
from ._megatron import megatron_tensors
from ._shards import Part, boxes_of, part_of
from ._views import Export, View, views_of

__all__ = ["Mirror", "layout", "megatron", "tensors_of"]


def tensors_of(model: Any) -> dict[str, torch.Tensor]:
    """Parameters and buffers under the model's own names; a tensor with two names has both."""
    _sharded(model)
    found = dict(model.named_parameters(remove_duplicate=False))
    found.update(model.named_buffers(remove_duplicate=False))
    return found


def _sharded(model: Any) -> None:
    """FSDP2 shows gathered parameters while they are gathered: their memory is about to go."""
    from torch.distributed.fsdp import FSDPModule

    for name, module in model.named_modules():
        if not isinstance(module, FSDPModule):
            continue
        group = getattr(module._get_fsdp_state(), "_fsdp_param_group", None)
        if group is not None and not group.is_sharded:
            raise FailedPrecondition(
                f"the parameters of {name or 'the model'} are gathered now; call reshard() on it "
                "first"
            )


def layout(
    model: Any,
    table: Table,
    *,
    export: Export | str | None = "auto",
    tensors: Mapping[str, torch.Tensor] | None = None,
) -> Layout:
    """What this rank holds of a model, bound to its parameters' memory: pieces by the placements of
    its DTensors (FSDP2, HSDP, tensor parallel, uneven, any dimension).

    `export`: how the model's own names and shapes become the checkpoint's: a callable {name: tensor}
    -> {name: tensor} of views (it runs on meta tensors of full shape); None: they are the
    checkpoint's; "auto": what transformers does when it saves the model, else None. `tensors`: in
    place of the model's parameters and buffers.
    """
    return _lay_out(model, table, export, tensors, None)


class Mirror:
    """A trainer whose parameters are not in the checkpoint's dtypes (fp32 masters, bf16 rollouts):
    a second set of local tensors in them, of which `layout` speaks. Call `refresh` between
    `begin_update` and `publish`."""

    def __init__(
        self,
        model: Any,
        table: Table,
        *,
        export: Export | str | None = "auto",
        tensors: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        self._pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self.layout = _lay_out(model, table, export, tensors, self._pairs)

    def refresh(self) -> None:
        """Copies the parameters as they are now."""
        with torch.no_grad():
            for source, target in self._pairs.values():
                target.copy_(source)


def megatron(model: Any, table: Table, model_dir: str, spec: str, rank: int) -> Mirror:
    """A Megatron-core rank (`model`: a module, or the list of its virtual stages). `spec` as in
    "megatron:tp=2,pp=2": each parameter's place comes from the rules of that framework, its memory
    from the live model; shapes must agree. Parameters that are in other dtypes (norms in fp32) are
    mirrored: call `refresh` before `publish`."""
    mirror = Mirror.__new__(Mirror)
    mirror._pairs = {}
    rules = Layout.from_rules(table, model_dir, spec, rank)
    mirror.layout = Layout.create(table)
    _bind(mirror.layout, rules, megatron_tensors(model), mirror._pairs)
    return mirror


def _bind(
    made: Layout,
    rules: Layout,
    tensors: Mapping[str, torch.Tensor],
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]],
) -> None:
    """The pieces of `rules` over live tensors of the same names and shapes."""
    indices = []
    for buffer in rules.buffers():
        tensor = tensors.get(buffer.name)
        if tensor is None:
            raise Mismatch(
                f"the model has no parameter {buffer.name}; it has {sorted(tensors)[:3]}, ...",
                tensor=buffer.name,
            )
        if tuple(tensor.shape) != buffer.shape:
            raise Mismatch(
                f"{buffer.name} is {list(tensor.shape)} in the model and {list(buffer.shape)} by "
                "the rules: the spec is not this model's",
                tensor=buffer.name,
            )
        memory = tensor.detach()
        if dtype_of(tensor) != buffer.dtype or not tensor.is_contiguous():
            memory = torch.empty(buffer.shape, dtype=torch_dtype(buffer.dtype))
            pairs[buffer.name] = (tensor.detach(), memory)
        indices.append(made.add_buffer(buffer.name, memory))
    for piece in rules.pieces():
        made.add_piece(
            piece.tensor, indices[piece.buffer], start=piece.start, count=piece.count,
            step=piece.step, offset=piece.offset, stride=piece.stride,
        )


def _views(
    model: Any, tensors: Mapping[str, torch.Tensor], export: Export | str | None
) -> dict[str, View]:
    if export == "auto":
        export = None
        if hasattr(model, "save_pretrained") and hasattr(model, "config"):
            from .._transformers import exporter

            export = exporter(model)
    if isinstance(export, str):
        raise InvalidArgument('export is a callable, None or "auto"')
    return views_of(tensors, export)


def _lay_out(
    model: Any,
    table: Table,
    export: Export | str | None,
    tensors: Mapping[str, torch.Tensor] | None,
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] | None,
) -> Layout:
    tensors = tensors_of(model) if tensors is None else tensors
    wanted = {info.name: info for info in table.tensors()}
    views = {n: v for n, v in _views(model, tensors, export).items() if n in wanted}
    missing = [name for name in wanted if name not in views]
    if missing:
        raise NotCovered(
            f"the model has nothing that is saved as {missing[0]}"
            + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else "")
            + "; `export` tells how its names become the checkpoint's",
            tensor=missing[0],
        )
    made = Layout.create(table)
    parts: dict[str, Part] = {}
    buffers: dict[tuple[str, Any], tuple[int, torch.Tensor]] = {}
    for name, view in views.items():
        info = wanted[name]
        if view.shape != info.shape:
            raise Mismatch(
                f"{name} is {list(info.shape)} in the checkpoint and {list(view.shape)} in the model",
                tensor=name,
            )
        if view.parameter not in parts:
            parts[view.parameter] = part_of(view.parameter, tensors[view.parameter])
        part = parts[view.parameter]
        if part.local.numel() == 0:
            continue
        key = (view.parameter, info.dtype)
        if key not in buffers:
            buffers[key] = _buffer(made, part, info.dtype, name, pairs)
        index, memory = buffers[key]
        size = memory.element_size()
        held = dataclasses.replace(part, local=memory)
        for box in boxes_of(name, view.shape, view.offset, view.stride, held):
            made.add_piece(
                name, index, start=box.start, count=box.count, offset=box.offset * size,
                stride=[s * size for s in box.stride],
            )
    return made


def _buffer(
    made: Layout,
    part: Part,
    dtype: Any,
    name: str,
    pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] | None,
) -> tuple[int, torch.Tensor]:
    if pairs is not None:
        target = torch.empty(tuple(part.local.shape), dtype=torch_dtype(dtype))
        pairs[f"{part.name} {dtype.name}"] = (part.local, target)
        return made.add_buffer(f"{part.name} {dtype.name}", target), target
    if dtype_of(part.local) != dtype:
        raise Mismatch(
            f"{part.name} is {part.local.dtype}, {name} is {dtype.name} in the checkpoint: "
            "weightbridge.torch.Mirror keeps a copy in the checkpoint's type",
            tensor=name,
        )
    return made.add_buffer(part.name, part.local), part.local


