"""Tiny models of real families, made by transformers with random weights."""

import pathlib

import torch

COMMON = dict(vocab_size=1000, hidden_size=64, num_hidden_layers=2, max_position_embeddings=512,
              intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
              tie_word_embeddings=False)


def config(family, **changes):
    import transformers
    if family == "llama":
        made = transformers.LlamaConfig(**{**COMMON, "head_dim": 32, **changes})
        made.architectures = ["LlamaForCausalLM"]
    elif family == "qwen2":
        made = transformers.Qwen2Config(**{**COMMON, "hidden_size": 128, **changes})
        made.architectures = ["Qwen2ForCausalLM"]
    elif family == "qwen3":
        made = transformers.Qwen3Config(**{**COMMON, "head_dim": 32, **changes})
        made.architectures = ["Qwen3ForCausalLM"]
    elif family == "qwen3_moe":
        made = transformers.Qwen3MoeConfig(**{
            **COMMON, "head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 48, "decoder_sparse_step": 1, "mlp_only_layers": [],
            **changes})
        made.architectures = ["Qwen3MoeForCausalLM"]
    elif family == "deepseek_v3":
        made = transformers.DeepseekV3Config(**{
            **COMMON, "num_key_value_heads": 4, "q_lora_rank": 48, "kv_lora_rank": 512,
            "qk_rope_head_dim": 64, "qk_nope_head_dim": 32, "v_head_dim": 32,
            "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
            "n_shared_experts": 1, "moe_intermediate_size": 48, "first_k_dense_replace": 1,
            **changes})
        made.architectures = ["DeepseekV3ForCausalLM"]
        made.topk_method = "noaux_tc"  # as in the released configurations; vLLM asks for it
    else:
        raise ValueError(family)
    made.dtype = torch.bfloat16
    return made


def make(family, folder, seed=0, **changes):
    """Writes a checkpoint; returns the model in memory."""
    import transformers
    made = config(family, **changes)
    torch.manual_seed(seed)
    model = getattr(transformers, made.architectures[0])(made).to(torch.bfloat16)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if name.endswith("e_score_correction_bias"):
            tensor.data = torch.randn(tensor.shape)  # fp32 in the released checkpoints
    model.save_pretrained(folder)
    return model


def folder(base, family, seed=0, **changes):
    path = pathlib.Path(base) / f"{family}-{seed}"
    make(family, path, seed, **changes)
    return str(path)
