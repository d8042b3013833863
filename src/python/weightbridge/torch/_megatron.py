"""The parameters of a Megatron-core rank under the names that the rules use."""

from __future__ import annotations

import re
from typing import Any

import torch

# Layers of its own spec ("local") against layers of Transformer Engine, which fuse the norms.
_LOCAL = (
    (r"(layers\.\d+)\.input_layernorm\.", r"\1.self_attention.linear_qkv.layer_norm_"),
    (r"(layers\.\d+)\.pre_mlp_layernorm\.", r"\1.mlp.linear_fc1.layer_norm_"),
    (r"\.mlp\.experts\.local_experts\.(\d+)\.(linear_fc[12])\.weight$", r".mlp.experts.\2.weight\1"),
)


def megatron_tensors(model: Any) -> dict[str, torch.Tensor]:
    """Of one module, or of the list of a rank's virtual stages."""
    chunks = model if isinstance(model, (list, tuple)) else [model]
    found: dict[str, torch.Tensor] = {}
    shift = 0
    for chunk in chunks:
        deepest = -1
        tensors = dict(chunk.named_parameters(remove_duplicate=False))
        tensors.update(chunk.named_buffers(remove_duplicate=False))
        for name, tensor in tensors.items():
            name = re.sub(r"^(module\.)+", "", name)
            layer = re.match(r"(decoder\.layers\.)(\d+)(\..*)", name)
            if layer is not None:
                deepest = max(deepest, int(layer[2]))
                name = f"{layer[1]}{int(layer[2]) + shift}{layer[3]}"
            found[name] = tensor
            for pattern, replacement in _LOCAL:
                other = re.sub(pattern, replacement, name)
                if other != name:
                    found.setdefault(other, tensor)
        shift += deepest + 1
    return found
