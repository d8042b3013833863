"""The layout of a live vLLM model, learnt through vLLM's own loaders."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import fnmatch
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch

from .._checkpoint import Table
from .._errors import Deadline, Unavailable, Unsupported
from .._layout import Layout
from .._probe import Homes, Probed, Weights, probe


@dataclasses.dataclass(frozen=True)
class Learnt:
    """What a pull into a live model needs to know."""

    layout: Layout
    probed: Probed
    finalise: Callable[[], None]
    """Makes anew what the model derives from its weights; call it after each pull."""


def keep_weights_plain() -> None:
    """vLLM's CPU backend moves linear weights into handles of its kernels after the load, where
    nothing outside can write. This keeps them in their parameters; for a process that has not made
    its model yet. WEIGHTBRIDGE_VLLM_PREPACK=1 leaves vLLM as it is."""
    if os.environ.get("WEIGHTBRIDGE_VLLM_PREPACK") == "1":
        return
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    import vllm._custom_ops as ops
    import vllm.model_executor.layers.utils as utils

    if hasattr(ops, "_supports_onednn"):
        ops._supports_onednn = False
    if hasattr(utils, "check_cpu_sgl_kernel"):
        utils.check_cpu_sgl_kernel = lambda *_, **__: False


def buffers_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The live tensors: parameters and buffers under the model's own names."""
    found: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    found.update(model.named_buffers(remove_duplicate=False))
    return found


@contextlib.contextmanager
def _configured(vllm_config: Any) -> Iterator[None]:
    from vllm.config import set_current_vllm_config

    with set_current_vllm_config(vllm_config):
        yield


def loader(model: torch.nn.Module, vllm_config: Any) -> Callable[[Weights], None]:
    """Loads a checkpoint into a live model as vLLM itself does (layerwise reload)."""
    from vllm.model_executor.model_loader.reload import (
        finalize_layerwise_reload,
        initialize_layerwise_reload,
    )

    def load(weights: Weights) -> None:
        with _configured(vllm_config), torch.no_grad():
            initialize_layerwise_reload(model)
            try:
                model.load_weights(iter(weights))  # type: ignore[operator]
            finally:
                finalize_layerwise_reload(model, vllm_config.model_config)

    return load


def fresh_loader(model: torch.nn.Module, vllm_config: Any) -> Callable[[Weights], None]:
    """Loads a checkpoint as a start of vLLM does, into a second model, and copies that into the
    live one: twice the model's memory, but it runs all that a start runs. vLLM's reload leaves out
    the packing of experts on CPU."""
    from vllm.model_executor.model_loader.utils import (
        initialize_model,
        process_weights_after_loading,
    )
    from vllm.utils.torch_utils import set_default_torch_dtype

    # Layers register themselves under their names in the configuration: here in a copy of it.
    config = copy.copy(vllm_config)
    config.compilation_config = copy.copy(vllm_config.compilation_config)
    device = vllm_config.device_config.device

    def load(weights: Weights) -> None:
        config.compilation_config.static_forward_context = {}
        with set_default_torch_dtype(config.model_config.dtype), torch.device(device):
            second = initialize_model(config)
            second.load_weights(iter(weights))
            process_weights_after_loading(second, config.model_config, torch.device(device))
        theirs = buffers_of(second)
        with torch.no_grad():
            for name, tensor in buffers_of(model).items():
                tensor.copy_(theirs[name])

    return load


def packs_experts(model: torch.nn.Module) -> bool:
    """Whether a start of vLLM reorders experts for its CPU kernel."""
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu()) and any(
        type(layer).__name__ in ("RoutedExperts", "FusedMoE") for layer in model.modules()
    )


def _deriving_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Attention layers: some keep transformed copies of weights (MLA: W_UV, W_UK_T of kv_b_proj),
    which vLLM derives after all other layers are loaded."""
    from vllm.model_executor.layers.attention import is_deferred_attention_layer

    return [layer for layer in model.modules() if is_deferred_attention_layer(layer)]


def layout(
    model: torch.nn.Module,
    table: Table,
    vllm_config: Any,
    *,
    restore: str = "backup",
    reload: Callable[[], object] | None = None,
    backup_dir: str | None = None,
    unused: Collection[str] = (),
    timeout: float = 120.0,
) -> Learnt:
    """Learns where `model`, live in this process, keeps each element of the checkpoint. Raises when
    pulls could not bring all of them; the model's weights are as before in every case. `unused`:
    patterns of checkpoint tensors that the model ignores (a stored copy of a tied head). All ranks
    that share the model call it together: they compare what they hold, and wait for each other for
    `timeout` seconds."""
    layers = _deriving_layers(model)
    dtype = vllm_config.model_config.dtype

    def finalise() -> None:
        with _configured(vllm_config), torch.no_grad():
            for layer in layers:
                layer.process_weights_after_loading(dtype)  # type: ignore[operator]

    make = fresh_loader if packs_experts(model) else loader
    groups = _groups(vllm_config)
    try:
        _require_reachable(model)
        try:
            probed = probe(
                make(model, vllm_config), table, lambda: buffers_of(model),
                restore=restore, reload=reload, backup_dir=backup_dir,
            )
        finally:
            finalise()  # what is derived follows the weights that were put back
        _require_live(model, probed, layers)
    except BaseException:
        with contextlib.suppress(Exception):
            _held_by_all(groups, None, timeout)  # the others hear of it instead of waiting
        raise
    held = {h.name: h.elements - h.no_home for h in probed.homes.values()}
    _require_held(probed.homes, _held_by_all(groups, held, timeout), unused)
    return Learnt(probed.layout, probed, finalise)


def _require_reachable(model: torch.nn.Module) -> None:
    """Before anything is loaded: what a loader writes into handles cannot be put back."""
    empty = [n for n, p in model.named_parameters() if p.numel() == 0 and n.endswith("weight")]
    if empty:
        raise Unsupported(
            f"{len(empty)} weights of the model are empty ({empty[0]}, for one): vLLM's CPU kernels "
            "keep them in handles that nothing outside can write. Make the model after "
            "weightbridge.vllm.keep_weights_plain(), which the plugin calls unless "
            "WEIGHTBRIDGE_VLLM_PREPACK=1 is set",
            tensor=empty[0],
        )


def _require_live(
    model: torch.nn.Module,
    probed: Probed,
    layers: list[torch.nn.Module],
) -> None:
    deriving = {id(t) for layer in layers for t in layer.parameters()}
    deriving |= {id(t) for layer in layers for t in layer.buffers()}
    own = buffers_of(model)
    for entry in probed.computed:
        if id(own[entry.buffer]) not in deriving:
            raise Unsupported(
                f"{entry.bytes * entry.count} bytes of {entry.buffer} are {entry.kind} by the loader "
                "and no copy of the checkpoint: a pull cannot fill them",
                tensor=entry.buffer,
            )


def _groups(vllm_config: Any) -> list[Any]:
    """The groups of ranks over which the model is cut: joined one after the other, they are all."""
    from vllm.distributed import get_dp_group, get_pp_group, get_tp_group

    groups = [get_tp_group(), get_pp_group()]
    if vllm_config.parallel_config.enable_expert_parallel:
        groups.append(get_dp_group())  # experts are cut over the data-parallel replicas too
    return [group for group in groups if group.world_size > 1]


def _gather(group: Any, mine: object, timeout: float) -> list[Any]:
    """What each rank of the group gives, in the order of ranks."""
    try:
        torch.distributed.monitored_barrier(
            group.cpu_group, timeout=datetime.timedelta(seconds=timeout))
    except RuntimeError as error:
        raise Deadline(
            f"the other ranks of the model did not come within {timeout:g} s to compare their "
            f"layouts; the weights are as before ({error})"
        ) from error
    given: list[Any] = [None] * group.world_size
    torch.distributed.all_gather_object(given, mine, group=group.cpu_group)
    return given


def _held_by_all(
    groups: Collection[Any], held: dict[str, int] | None, timeout: float
) -> dict[str, int]:
    """How many elements of each checkpoint tensor the ranks hold between them; what two of them
    hold counts twice. `held`: of this rank, None if it has failed."""
    failed = None
    for group in groups:  # all of them, also after a failure: other ranks wait in the next ones
        parts = _gather(group, held, timeout)
        if None in parts:
            if held is not None:
                failed = group.ranks[parts.index(None)]
            held = None
            continue
        total: dict[str, int] = {}
        for part in parts:
            for name, elements in part.items():
                total[name] = total.get(name, 0) + elements
        held = total
    if failed is not None:
        raise Unavailable(
            f"rank {failed} of the model has no layout, by an error of its own or of a rank that it "
            "waited for; the weights are as before",
            peer=f"rank {failed}",
        )
    return held or {}


def _require_held(
    homes: Mapping[str, Homes], held: Mapping[str, int], unused: Collection[str]
) -> None:
    lost = [
        h for h in homes.values()
        if held.get(h.name, 0) < h.elements and not any(fnmatch.fnmatch(h.name, p) for p in unused)
    ]
    if lost:
        first = lost[0]
        raise Unsupported(
            f"{len(lost)} checkpoint tensors have elements that no parameter of the model holds, on "
            f"any rank: {first.elements - held.get(first.name, 0)} of {first.elements} of "
            f"{first.name}, for one. Tensors that the model does not use are named in `unused` "
            "(patterns)",
            tensor=first.name,
        )
