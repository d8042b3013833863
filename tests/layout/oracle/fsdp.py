"""FSDP2 (one DTensor per parameter), FSDP with flat parameters, and full copies."""

import re

import numpy as np

from checkpoints import UNMAPPED
from grid import Refused

BUFFERS = ("position_ids", "e_score_correction_bias")


def aliases(ck):
    """Second copies of shared weights, which no model holds."""
    out = set()
    if ck.config.get("tie_word_embeddings") and ck.config["model_type"] != "bert":
        out.add("lm_head.weight")
    total = ck.config["num_hidden_layers"]
    for j in range(ck.config.get("num_nextn_predict_layers", 0)):
        out.add(f"model.layers.{total + j}.embed_tokens.weight")
        out.add(f"model.layers.{total + j}.shared_head.head.weight")
    return out


def torch_chunk(x, parts, dim=0):
    """torch.chunk, with empty tensors for the parts that get none."""
    size = -(-x.shape[dim] // parts)
    chunks = np.split(x, range(size, x.shape[dim], size), axis=dim)
    hole = np.take(x, [], axis=dim)
    return chunks + [hole] * (parts - len(chunks))


def fused_parameters(ck):
    """The state of a Transformers 5 model: experts fused to [experts, rows, columns]."""
    out = {n: x for n, x in ck.tensors.items() if n not in aliases(ck)}
    layers = {re.sub(r"experts\.0\..*", "experts", n) for n in out if ".experts.0." in n}
    for at in layers:
        number = sum(n.startswith(at) and n.endswith(".down_proj.weight") for n in list(out))

        def stack(part):
            return np.stack([out.pop(f"{at}.{e}.{part}.weight") for e in range(number)])

        out[at + ".gate_up_proj"] = np.concatenate([stack("gate_proj"), stack("up_proj")], axis=1)
        out[at + ".down_proj"] = stack("down_proj")
    return out


def sharded(spec, ck, rank):
    shards = spec.get("shards", 1)
    own = {}
    for name, x in fused_parameters(ck).items():
        if name.endswith(BUFFERS):
            own[name] = x
            continue
        dim = 1 if x.ndim == 3 and shards > x.shape[0] else 0
        if dim == 1 and x.shape[1] % shards:
            raise Refused("uneven sharding on dim 1")
        part = torch_chunk(x, shards, dim)[rank % shards]
        if part.size:
            own[name] = part
    return own


def module_order(ck, name):
    """Sort key that gives the order in which the modules of the model register parameters."""
    order = (
        "embed_tokens word_embeddings position_embeddings token_type_embeddings embeddings.LayerNorm "
        "self_attn.q_proj self_attn.q_a_proj q_a_layernorm q_b_proj self_attn.k_proj self_attn.v_proj "
        "kv_a_proj_with_mqa kv_a_layernorm kv_b_proj o_proj q_norm k_norm "
        "self.query self.key self.value attention.output.dense attention.output.LayerNorm "
        "intermediate.dense output.dense output.LayerNorm "
        "GATE_FIRST EXPERT GATE_LAST shared_experts.gate_proj shared_experts.up_proj "
        "shared_experts.down_proj mlp.gate_proj mlp.up_proj mlp.down_proj "
        "input_layernorm post_attention_layernorm enorm hnorm eh_proj shared_head.norm "
        "model.norm lm_head pooler.dense"
    ).split()
    kind = name.endswith(".bias")  # weight before bias
    expert = re.search(r"experts\.(\d+)\.(gate|up|down)_proj", name)
    if expert:
        part = ("gate", "up", "down").index(expert[2])
        return (order.index("EXPERT"), int(expert[1]), part, kind)
    if name.endswith("mlp.gate.weight"):  # DeepSeek registers its experts before the router
        late = ck.config["model_type"] in ("deepseek_v3", "kimi_k2")
        return (order.index("GATE_LAST" if late else "GATE_FIRST"), 0, 0, kind)
    hits = [i for i, word in enumerate(order) if f".{word}." in f".{name}"]
    assert len(hits) >= 1, name
    longest = max(hits, key=lambda i: len(order[i]))
    return (longest, 0, 0, kind)


def flat(spec, ck, rank):
    shards = spec.get("shards", 1)
    blocks, own = {}, {}
    for name, x in ck.tensors.items():
        if name in aliases(ck):
            continue
        if name.endswith(BUFFERS):
            own[name] = x
            continue
        layer = re.match(r"(?:bert\.)?((?:model\.layers|encoder\.layer)\.\d+\.)", name)
        blocks.setdefault(layer[1] if layer else "", []).append(name)
    for block, names in blocks.items():
        names.sort(key=lambda n: module_order(ck, n))
        vector = np.concatenate([ck[n].ravel() for n in names])
        pad = -len(vector) % shards
        vector = np.concatenate([vector, np.full(pad, UNMAPPED, dtype=np.int64)])
        own[block + "_flat_param"] = np.split(vector, shards)[rank % shards]
    return own


def layout(spec, ck, rank):
    return flat(spec, ck, rank) if spec.get("flat") else sharded(spec, ck, rank)


def world(spec):
    return spec.get("shards", 1) * spec.get("replicas", 1)


def replicated(spec, ck, rank):
    return {n: x for n, x in ck.tensors.items() if n not in aliases(ck)}
