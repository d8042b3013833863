"""vLLM: the layout of a live model, and a weight-transfer engine called "weightbridge".

    llm = LLM(model, weight_transfer_config=WeightTransferConfig(backend="weightbridge"))
    llm.init_weight_transfer_engine({"init_info": {"store": URL, "token": TOKEN}})
    llm.start_weight_update(); llm.update_weights({"update_info": {"version": 7}})
    llm.finish_weight_update()

The same calls go over HTTP to `vllm serve`. vLLM finds the engine by itself, through the entry point
group vllm.general_plugins.
"""

from __future__ import annotations

from typing import Any

from ._layout import Learnt, buffers_of, keep_weights_plain, layout, loader, packs_experts

__all__ = ["Learnt", "buffers_of", "keep_weights_plain", "layout", "loader", "packs_experts", "register"]


def register() -> None:
    """Called by vLLM in each of its processes, perhaps more than once."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    registry: dict[str, Any] = WeightTransferEngineFactory._registry
    if "weightbridge" not in registry:
        WeightTransferEngineFactory.register_engine(
            "weightbridge", "weightbridge.vllm._engine", "WeightBridgeEngine"
        )
    keep_weights_plain()
