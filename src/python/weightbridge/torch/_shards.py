"""Which elements of a full tensor lie in this rank's part of it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .._errors import Mismatch, Unsupported

Run = tuple[int, int, int]
"""First coordinate in the full tensor, how many, first coordinate in the local one."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A rank's part of one tensor: per dimension the runs of coordinates that it has."""

    name: str
    shape: tuple[int, ...]
    """Of the full tensor."""
    runs: tuple[tuple[Run, ...], ...]
    local: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Box:
    """A box of a checkpoint tensor in local memory. Strides count elements."""

    start: tuple[int, ...]
    count: tuple[int, ...]
    offset: int
    stride: tuple[int, ...]


def part_of(name: str, tensor: torch.Tensor) -> Part:
    """Of a DTensor what its placements say; of any other tensor all of it."""
    shape = tuple(tensor.shape)
    placements = getattr(tensor, "placements", None)
    if placements is None or not hasattr(tensor, "to_local"):
        return Part(name, shape, tuple(((0, n, 0),) for n in shape), tensor.detach())
    mesh: Any = tensor.device_mesh  # type: ignore[attr-defined]
    here = mesh.get_coordinate()
    local = tensor.to_local().detach()
    if here is None:
        runs: list[list[Run]] = [[] for _ in shape]
        return Part(name, shape, tuple(map(tuple, runs)), local.new_empty(0))
    rows = [[(0, n)] for n in shape]  # [begin, end) in the order in which they lie
    for axis, placement in enumerate(placements):
        if placement.is_replicate():
            continue
        if placement.is_partial():
            raise Unsupported(f"{name} is a partial sum: no rank holds its values", tensor=name)
        dim = placement.dim % len(shape)
        factor = getattr(placement, "split_factor", 1)
        rows[dim] = _shard(rows[dim], mesh.size(axis), here[axis], int(factor))
    listed = tuple(tuple(_runs(r)) for r in rows)
    expected = tuple(sum(n for _, n, _ in dim) for dim in listed)
    if tuple(local.shape) != expected:
        raise Mismatch(
            f"{name}: {placements} of {list(shape)} gives rank {here} {list(expected)}, but its "
            f"local tensor is {list(local.shape)}",
            tensor=name,
        )
    return Part(name, shape, listed, local)


def _chunk(rows: list[tuple[int, int]], count: int, index: int) -> list[tuple[int, int]]:
    """As torch.chunk: ceil(n / count) each, the last ones fewer or none."""
    total = sum(end - begin for begin, end in rows)
    size = -(-total // count) if total else 0
    low, high = min(index * size, total), min((index + 1) * size, total)
    picked, position = [], 0
    for begin, end in rows:
        first, last = max(low - position, 0), min(high - position, end - begin)
        if first < last:
            picked.append((begin + first, begin + last))
        position += end - begin
    return picked


def _shard(
    rows: list[tuple[int, int]], count: int, index: int, factor: int
) -> list[tuple[int, int]]:
    """`factor` > 1: the dimension is also cut by a later axis of the mesh, first."""
    picked = []
    for piece in range(factor):
        picked += _chunk(_chunk(rows, factor, piece), count, index)
    return picked


def _runs(rows: Sequence[tuple[int, int]]) -> Iterator[Run]:
    position = 0
    begin, end = None, None
    for first, last in rows:
        if end == first and begin is not None:
            end = last
            continue
        if begin is not None and end is not None:
            yield begin, end - begin, position
            position += end - begin
        begin, end = first, last
    if begin is not None and end is not None:
        yield begin, end - begin, position


def boxes_of(
    name: str, shape: Sequence[int], offset: int, stride: Sequence[int], part: Part
) -> Iterator[Box]:
    """Where the elements of a view of the full tensor (element offset + sum(i * stride) of it) lie
    in the local part."""
    dense = [1] * len(part.shape)
    for d in range(len(part.shape) - 2, -1, -1):
        dense[d] = dense[d + 1] * part.shape[d + 1]
    first, rest = [], offset
    for d, step in enumerate(dense):
        first.append(rest // step if part.shape[d] else 0)
        rest %= step
    # Each dimension of the view walks along one dimension of the tensor, in steps of `pace`.
    walks: dict[int, tuple[int, int]] = {}
    for v, (count, step) in enumerate(zip(shape, stride, strict=True)):
        if count == 1:
            continue
        for d in range(len(part.shape)):
            pace, odd = divmod(step, dense[d])
            if not odd and pace and d not in walks and first[d] + pace * (count - 1) < part.shape[d]:
                walks[d] = (v, pace)
                break
        else:
            raise Unsupported(
                f"{name} runs through {part.name} in a way that no box of it describes", tensor=name
            )
    local_stride = part.local.stride()
    for combination in itertools.product(*part.runs):
        start, sizes, steps = [0] * len(shape), list(shape), [0] * len(shape)
        at = 0
        for d, (begin, size, position) in enumerate(combination):
            view, pace = walks.get(d, (-1, 1))
            low = max(0, -(-(begin - first[d]) // pace))
            high = -(-(begin + size - first[d]) // pace)
            if view < 0:
                low, high = (0, 1) if begin <= first[d] < begin + size else (0, 0)
            else:
                high = min(high, shape[view])
                start[view], sizes[view] = low, high - low
                steps[view] = pace * local_stride[d]
            if low >= high:
                break
            at += (position + first[d] + pace * low - begin) * local_stride[d]
        else:
            yield Box(tuple(start), tuple(sizes), at, tuple(steps))
