"""vLLM: allocates each parameter as its layers do and runs its weight loaders, which narrow the
checkpoint tensor and copy it into a place of the parameter."""

import numpy as np

from checkpoints import ZERO
from grid import Refused, coordinates

EMPTY = -3  # allocated, not loaded: must not be left


def divide(a, b):
    if a % b:
        raise Refused(f"{a} is not divisible by {b}")
    return a // b


def narrow(x, axis, start, length):
    index = [slice(None)] * x.ndim
    index[axis] = slice(start, start + length)
    return x[tuple(index)]


def empty(*shape):
    return np.full(shape, EMPTY, dtype=np.int64)


class Loaders:
    def __init__(self, tp, tp_rank):
        self.tp, self.rank = tp, tp_rank

    def vocab(self, x):
        """VocabParallelEmbedding: the loaded rows first, then zeros."""
        padded = (x.shape[0] + 63) // 64 * 64
        per = divide(padded, self.tp)
        param = empty(per, x.shape[1])
        start = min(self.rank * per, x.shape[0])
        stop = min((self.rank + 1) * per, x.shape[0])
        param[: stop - start] = x[start:stop]
        param[stop - start :] = ZERO
        return param

    def column_parallel(self, x):
        size = divide(x.shape[0], self.tp)
        param = empty(size, *x.shape[1:])
        param[:] = narrow(x, 0, self.rank * size, size)
        return param

    def row_parallel(self, x):
        size = divide(x.shape[1], self.tp)
        param = empty(x.shape[0], size)
        param[:] = narrow(x, 1, self.rank * size, size)
        return param

    def merged_column(self, parts, tp=None, rank=None):
        """MergedColumnParallelLinear; tp = 1 with disable_tp."""
        tp, rank = (self.tp, self.rank) if tp is None else (tp, rank)
        sizes = [divide(x.shape[0], tp) for x in parts]
        param = empty(sum(sizes), *parts[0].shape[1:])
        for number, (x, size) in enumerate(zip(parts, sizes)):
            offset = sum(sizes[:number])
            param[offset : offset + size] = narrow(x, 0, rank * size, size)
        return param

    def qkv(self, q, k, v, heads, kv_heads):
        """QKVParallelLinear."""
        head = q.shape[0] // heads
        num_heads = divide(heads, self.tp)
        if self.tp >= kv_heads:
            num_kv, replicas = 1, divide(self.tp, kv_heads)
        else:
            num_kv, replicas = divide(kv_heads, self.tp), 1
        param = empty((num_heads + 2 * num_kv) * head, *q.shape[1:])
        places = {"q": 0, "k": num_heads * head, "v": (num_heads + num_kv) * head}
        for name, x in (("q", q), ("k", k), ("v", v)):
            size = (num_heads if name == "q" else num_kv) * head
            shard = self.rank if name == "q" else self.rank // replicas
            param[places[name] : places[name] + size] = narrow(x, 0, shard * size, size)
        return param


def fused_moe(ck, at, number, expert_map, tp, rank):
    """FusedMoE: w1 and w3 into the halves of w13, w2 by columns; expert_map: global -> local."""
    moe_ffn, hidden = ck[f"{at}0.gate_proj.weight"].shape
    size = divide(moe_ffn, tp)
    local = sum(place >= 0 for place in expert_map)
    w13, w2 = empty(local, 2 * size, hidden), empty(local, hidden, size)
    for e in range(number):
        place = expert_map[e]
        if place < 0:
            continue
        for shard, name in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
            x = ck[f"{at}{e}.{name}.weight"]
            if shard == "w2":
                w2[place][:] = narrow(x, 1, rank * size, size)
            else:
                start = 0 if shard == "w1" else size
                w13[place][start : start + size] = narrow(x, 0, rank * size, size)
    return w13, w2


def make_expert_map(number, ep, ep_rank):
    """determine_expert_map, linear placement."""
    base, remainder = number // ep, number % ep
    counts = [base + 1 if r < remainder else base for r in range(ep)]
    start = sum(counts[:ep_rank])
    return [e - start if start <= e < start + counts[ep_rank] else -1 for e in range(number)]


def get_pp_indices(layers, pp, rank):
    partitions = [layers // pp] * pp
    remaining = layers % pp
    for i in range(2, remaining + 2):
        partitions[-i] += 1
    start = sum(partitions[:rank])
    return range(start, start + partitions[rank])


def decoder_layer(ck, i, load, experts):
    at = f"model.layers.{i}."
    attn = at + "self_attn."
    own = {}
    for n in ("input_layernorm.weight", "post_attention_layernorm.weight"):
        own[at + n] = ck[at + n]
    if "kv_lora_rank" in ck.config:
        a = ck[attn + "kv_a_proj_with_mqa.weight"]
        if ck.config["q_lora_rank"]:
            parts = [ck[attn + "q_a_proj.weight"], a]
            own[attn + "fused_qkv_a_proj.weight"] = load.merged_column(parts, tp=1, rank=0)
            own[attn + "q_a_layernorm.weight"] = ck[attn + "q_a_layernorm.weight"]
            own[attn + "q_b_proj.weight"] = load.column_parallel(ck[attn + "q_b_proj.weight"])
        else:
            own[attn + "kv_a_proj_with_mqa.weight"] = a
            own[attn + "q_proj.weight"] = load.column_parallel(ck[attn + "q_proj.weight"])
        own[attn + "kv_a_layernorm.weight"] = ck[attn + "kv_a_layernorm.weight"]
        own[attn + "kv_b_proj.weight"] = load.column_parallel(ck[attn + "kv_b_proj.weight"])
    else:
        heads = ck.config["num_attention_heads"], ck.config["num_key_value_heads"]
        for kind in ("weight", "bias"):
            parts = [ck.get(f"{attn}{p}_proj.{kind}") for p in "qkv"]
            if parts[0] is not None:
                own[f"{attn}qkv_proj.{kind}"] = load.qkv(*parts, *heads)
        for n in ("q_norm.weight", "k_norm.weight"):
            if ck.get(attn + n) is not None:
                own[attn + n] = ck[attn + n]
    own[attn + "o_proj.weight"] = load.row_parallel(ck[attn + "o_proj.weight"])
    if ck.get(attn + "o_proj.bias") is not None:
        own[attn + "o_proj.bias"] = ck[attn + "o_proj.bias"]

    def dense(prefix):
        parts = [ck[prefix + "gate_proj.weight"], ck[prefix + "up_proj.weight"]]
        own[prefix + "gate_up_proj.weight"] = load.merged_column(parts)
        own[prefix + "down_proj.weight"] = load.row_parallel(ck[prefix + "down_proj.weight"])

    if ck.get(at + "mlp.gate.weight") is None:
        dense(at + "mlp.")
        return own
    for n in ("mlp.gate.weight", "mlp.gate.e_score_correction_bias"):
        if ck.get(at + n) is not None:
            own[at + n] = ck[at + n]
    w13, w2 = fused_moe(ck, at + "mlp.experts.", *experts)
    own[at + "mlp.experts.w13_weight"], own[at + "mlp.experts.w2_weight"] = w13, w2
    if ck.get(at + "mlp.shared_experts.gate_proj.weight") is not None:
        dense(at + "mlp.shared_experts.")
    return own


def bert(ck, load, pp):
    if pp > 1:
        raise Refused("pipeline")
    prefix = "bert." if ck.get("bert.embeddings.position_ids") is not None else ""
    heads = ck.config["num_attention_heads"]
    own = {}
    for full, x in ck.tensors.items():
        name = full[len(prefix) :]
        if ".attention.self." in name:
            continue
        if "_embeddings." in name:
            own[name] = load.vocab(x)
        elif name.endswith("intermediate.dense.weight") or name.endswith("intermediate.dense.bias"):
            own[name] = load.column_parallel(x)
        elif name.endswith("output.dense.weight"):
            own[name] = load.row_parallel(x)
        else:
            own[name] = x
    for i in range(ck.config["num_hidden_layers"]):
        at = f"encoder.layer.{i}.attention.self."
        for kind in ("weight", "bias"):
            parts = [ck[f"{prefix}{at}{p}.{kind}"] for p in ("query", "key", "value")]
            own[f"{at}qkv_proj.{kind}"] = load.qkv(*parts, heads, heads)
    return own


def layout(spec, ck, rank):
    tp, pp, dp, engines = (spec.get(key, 1) for key in ("tp", "pp", "dp", "engines"))
    _, stage, dp_rank, tp_rank = coordinates(rank, (engines, pp, dp, tp))
    if ck.config["num_attention_heads"] % tp:
        raise Refused("heads")
    load = Loaders(tp, tp_rank)
    number = ck.config.get("num_experts", ck.config.get("n_routed_experts", 0))
    flat_rank = dp_rank * tp + tp_rank
    if "ep" in spec:
        if number < spec["ep"]:
            raise Refused("experts")
        experts = (number, make_expert_map(number, dp * tp, flat_rank), 1, 0)
    else:
        experts = (number, list(range(number)), dp * tp, flat_rank)
    if ck.config["model_type"] == "bert":
        return bert(ck, load, pp)
    own = {}
    tied = ck.config["tie_word_embeddings"]
    if stage == 0 or (tied and stage == pp - 1):
        own["model.embed_tokens.weight"] = load.vocab(ck["model.embed_tokens.weight"])
    for i in get_pp_indices(ck.config["num_hidden_layers"], pp, stage):
        own.update(decoder_layer(ck, i, load, experts))
    if stage == pp - 1:
        own["model.norm.weight"] = ck["model.norm.weight"]
        if not tied:
            own["lm_head.weight"] = load.vocab(ck["lm_head.weight"])
    return own


def world(spec):
    return int(np.prod([spec.get(key, 1) for key in ("tp", "pp", "dp", "engines")]))
