"""Hugging Face models: their checkpoint's names, without a checkpoint."""

from __future__ import annotations

import os
from typing import Any

from ._checkpoint import Table
from ._errors import InvalidArgument, Unsupported


def read_config(folder: str | os.PathLike[str]) -> Any:
    """The configuration of a folder with config.json."""
    if not os.path.exists(os.path.join(folder, "config.json")):
        raise InvalidArgument(f"{os.fspath(folder)} holds neither safetensors files nor config.json")
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder)


def meta_model(config: Any, dtype: Any = None) -> Any:
    """The model of a configuration, without memory."""
    import torch
    import transformers

    names = getattr(config, "architectures", None) or []
    cls = getattr(transformers, names[0], None) if names else None
    kind = torch.dtype if dtype is None else type(dtype)
    wanted = dtype if dtype is not None and kind is torch.dtype else getattr(config, "dtype", None)
    before = torch.get_default_dtype()
    try:
        if isinstance(wanted, torch.dtype) and wanted.is_floating_point:
            torch.set_default_dtype(wanted)
        with torch.device("meta"):
            model = cls(config) if cls is not None else transformers.AutoModel.from_config(config)
        kept = tuple(getattr(model, "_keep_in_fp32_modules_strict", None) or ())
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point() and set(kept) & set(name.split(".")):
                tensor.data = tensor.data.float()
        return model
    finally:
        torch.set_default_dtype(before)


def exporter(model: Any) -> Any:
    """What names a transformers model's tensors as its checkpoint: {name: tensor} -> the same."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError as error:
        raise Unsupported("transformers is older than 5") from error
    return lambda tensors: revert_weight_conversion(model, tensors)


def table_of_config(config: Any, dtype: Any = None) -> Table:
    """The table that a checkpoint of this configuration has: tied tensors once, as it is saved."""
    from .torch._views import views_of

    model = meta_model(config, dtype)
    tensors = dict(model.state_dict(keep_vars=True))
    for name in tied_names(model):
        tensors.pop(name, None)
    exported = views_of(tensors, exporter(model), strict=False)
    return Table.create((n, v.dtype, v.shape) for n, v in exported.items())


def tied_names(model: Any) -> set[str]:
    """Parameters that are another name of one that is saved."""
    keys = getattr(model, "all_tied_weights_keys", None)
    return set(keys) if keys else set()
