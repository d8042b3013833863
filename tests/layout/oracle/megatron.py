"""Megatron-core: builds the parameters of the whole model as its checkpoint converters do (merge
first), then cuts them by rank."""

import numpy as np

from checkpoints import UNMAPPED
from grid import Refused, coordinates, cut, rows_below


def merge_qkv(q, k, v, groups):
    """Group by group [queries | key | value], as a reshape and one concatenation."""
    tail = q.shape[1:]
    parts = [x.reshape((groups, x.shape[0] // groups) + tail) for x in (q, k, v)]
    return np.concatenate(parts, axis=1).reshape((-1,) + tail)


def merge_gated(gate, up, parts):
    """The fused matrix whose even cut gives [gate_r; up_r] to rank r."""
    pairs = zip(cut(gate, parts), cut(up, parts))
    return np.concatenate([np.concatenate(pair) for pair in pairs])


class Cutter:
    """Gives rank parts: dense over tp, experts over etp."""

    def __init__(self, tp, tp_rank, etp, etp_rank):
        self.tp, self.tp_rank, self.etp, self.etp_rank = tp, tp_rank, etp, etp_rank

    def rows(self, full):
        return cut(full, self.tp)[self.tp_rank]

    def columns(self, full):
        return cut(full, self.tp, axis=1)[self.tp_rank]

    def vocab(self, full):
        return self.rows(rows_below(full, 128 * self.tp, UNMAPPED))

    def gated(self, gate, up):
        return self.rows(merge_gated(gate, up, self.tp))

    def expert_gated(self, gate, up):
        return cut(merge_gated(gate, up, self.etp), self.etp)[self.etp_rank]

    def expert_columns(self, full):
        return cut(full, self.etp, axis=1)[self.etp_rank]


def decoder_layer(ck, i, c, experts):
    """Own name (inside the layer) -> local array. `experts`: global numbers, in local order."""
    at = f"model.layers.{i}."
    attn = at + "self_attn."
    out = {}
    if "kv_lora_rank" in ck.config:
        out["input_layernorm.weight"] = ck[at + "input_layernorm.weight"]
        if ck.get(attn + "q_proj.weight") is not None:
            out["self_attention.linear_q_proj.weight"] = c.rows(ck[attn + "q_proj.weight"])
        else:
            out["self_attention.linear_q_down_proj.weight"] = ck[attn + "q_a_proj.weight"]
            out["self_attention.linear_q_up_proj.layer_norm_weight"] = ck[attn + "q_a_layernorm.weight"]
            out["self_attention.linear_q_up_proj.weight"] = c.rows(ck[attn + "q_b_proj.weight"])
        out["self_attention.linear_kv_down_proj.weight"] = ck[attn + "kv_a_proj_with_mqa.weight"]
        out["self_attention.linear_kv_up_proj.layer_norm_weight"] = ck[attn + "kv_a_layernorm.weight"]
        out["self_attention.linear_kv_up_proj.weight"] = c.rows(ck[attn + "kv_b_proj.weight"])
    else:
        groups = ck.config["num_key_value_heads"]
        out["self_attention.linear_qkv.layer_norm_weight"] = ck[at + "input_layernorm.weight"]
        for kind in ("weight", "bias"):
            parts = [ck.get(f"{attn}{p}_proj.{kind}") for p in "qkv"]
            if parts[0] is not None:
                out[f"self_attention.linear_qkv.{kind}"] = c.rows(merge_qkv(*parts, groups))
        for n in "qk":
            if ck.get(f"{attn}{n}_norm.weight") is not None:
                out[f"self_attention.{n}_layernorm.weight"] = ck[f"{attn}{n}_norm.weight"]
    out["self_attention.linear_proj.weight"] = c.columns(ck[attn + "o_proj.weight"])
    if ck.get(attn + "o_proj.bias") is not None:
        out["self_attention.linear_proj.bias"] = ck[attn + "o_proj.bias"]

    def gate_up(prefix):
        return ck[prefix + "gate_proj.weight"], ck[prefix + "up_proj.weight"]

    norm = ck[at + "post_attention_layernorm.weight"]
    if ck.get(at + "mlp.gate.weight") is None:
        out["mlp.linear_fc1.layer_norm_weight"] = norm
        out["mlp.linear_fc1.weight"] = c.gated(*gate_up(at + "mlp."))
        out["mlp.linear_fc2.weight"] = c.columns(ck[at + "mlp.down_proj.weight"])
        return out
    out["pre_mlp_layernorm.weight"] = norm
    out["mlp.router.weight"] = ck[at + "mlp.gate.weight"]
    if ck.get(at + "mlp.gate.e_score_correction_bias") is not None:
        out["mlp.router.expert_bias"] = ck[at + "mlp.gate.e_score_correction_bias"]
    for k, e in enumerate(experts):
        prefix = f"{at}mlp.experts.{e}."
        out[f"mlp.experts.linear_fc1.weight{k}"] = c.expert_gated(*gate_up(prefix))
        out[f"mlp.experts.linear_fc2.weight{k}"] = c.expert_columns(ck[prefix + "down_proj.weight"])
    shared = at + "mlp.shared_experts."
    if ck.get(shared + "gate_proj.weight") is not None:
        out["mlp.shared_experts.linear_fc1.weight"] = c.gated(*gate_up(shared))
        out["mlp.shared_experts.linear_fc2.weight"] = c.columns(ck[shared + "down_proj.weight"])
    return out


def bert_layer(ck, i, c, prefix):
    at = f"{prefix}encoder.layer.{i}."
    out = {}
    for kind in ("weight", "bias"):
        qkv = [ck[f"{at}attention.self.{p}.{kind}"] for p in ("query", "key", "value")]
        heads = ck.config["num_attention_heads"]
        out[f"self_attention.linear_qkv.{kind}"] = c.rows(merge_qkv(*qkv, heads))
        out[f"mlp.linear_fc1.{kind}"] = c.rows(ck[f"{at}intermediate.dense.{kind}"])
        out[f"post_attention_layernorm.{kind}"] = ck[f"{at}attention.output.LayerNorm.{kind}"]
        out[f"post_mlp_layernorm.{kind}"] = ck[f"{at}output.LayerNorm.{kind}"]
    out["self_attention.linear_proj.weight"] = c.columns(ck[at + "attention.output.dense.weight"])
    out["self_attention.linear_proj.bias"] = ck[at + "attention.output.dense.bias"]
    out["mlp.linear_fc2.weight"] = c.columns(ck[at + "output.dense.weight"])
    out["mlp.linear_fc2.bias"] = ck[at + "output.dense.bias"]
    return out


def chunk_layers(total, chunks, listed):
    """Layer numbers of each pipeline chunk."""
    if listed:
        if sum(listed) != total:
            raise Refused("sum of layers")
        ends = np.cumsum(listed)
        return [list(range(end - n, end)) for end, n in zip(ends, listed)]
    if total < chunks:
        raise Refused("empty chunks")
    return [list(map(int, part)) for part in np.array_split(np.arange(total), chunks)]


def before(ck, c, prefix):
    if ck.config["model_type"] != "bert":
        return {"embedding.word_embeddings.weight": c.vocab(ck["model.embed_tokens.weight"])}
    at = prefix + "embeddings."
    return {
        "embedding.position_ids": ck[at + "position_ids"],
        "embedding.word_embeddings.weight": c.vocab(ck[at + "word_embeddings.weight"]),
        "embedding.position_embeddings.weight": ck[at + "position_embeddings.weight"],
        "embedding.tokentype_embeddings.weight": ck[at + "token_type_embeddings.weight"],
        "embedding.layernorm.weight": ck[at + "LayerNorm.weight"],
        "embedding.layernorm.bias": ck[at + "LayerNorm.bias"],
    }


def behind(ck, c, prefix, first):
    if ck.config["model_type"] == "bert":
        names = ["pooler.dense.weight", "pooler.dense.bias"]
        return {n: ck[prefix + n] for n in names if ck.get(prefix + n) is not None}
    out = {"decoder.final_layernorm.weight": ck["model.norm.weight"]}
    if not ck.config["tie_word_embeddings"]:
        out["output_layer.weight"] = c.vocab(ck["lm_head.weight"])
    elif not first:
        out["output_layer.weight"] = c.vocab(ck["model.embed_tokens.weight"])
    return out


def mtp_layers(ck, c, experts):
    out = {}
    total = ck.config["num_hidden_layers"]
    for j in range(ck.config.get("num_nextn_predict_layers", 0)):
        at = f"model.layers.{total + j}."
        if ck.get(at + "enorm.weight") is None:
            continue
        own = f"mtp.layers.{j}."
        out[own + "enorm.weight"] = ck[at + "enorm.weight"]
        out[own + "hnorm.weight"] = ck[at + "hnorm.weight"]
        out[own + "eh_proj.weight"] = c.rows(ck[at + "eh_proj.weight"])
        out[own + "final_layernorm.weight"] = ck[at + "shared_head.norm.weight"]
        for n, x in decoder_layer(ck, total + j, c, experts).items():
            out[f"{own}transformer_layer.{n}"] = x
    return out


def refuse(ck, tp, ep):
    heads = ck.config["num_attention_heads"]
    groups = ck.config.get("num_key_value_heads", heads)
    experts = ck.config.get("num_experts", ck.config.get("n_routed_experts", 0))
    if heads % tp:
        raise Refused("heads")
    if "kv_lora_rank" not in ck.config and groups % tp and tp % groups:
        raise Refused("groups")
    if ep > 1 and (experts == 0 or experts % ep):
        raise Refused("experts")


def layout(spec, ck, rank):
    get = lambda key: spec.get(key, 1)
    tp, pp, vpp, cp, dp, ep = map(get, ("tp", "pp", "vpp", "cp", "dp", "ep"))
    etp = spec.get("etp", tp)
    refuse(ck, tp, ep)
    stage, dp_rank, cp_rank, tp_rank = coordinates(rank, (pp, dp, cp, tp))
    inside = rank - stage * dp * cp * tp
    _, ep_rank, etp_rank = coordinates(inside, (dp * cp * tp // ep // etp, ep, etp))
    c = Cutter(tp, tp_rank, etp, etp_rank)
    number = ck.config.get("num_experts", ck.config.get("n_routed_experts", 0))
    experts = [g for g in range(number) if g // (number // ep) == ep_rank]
    is_bert = ck.config["model_type"] == "bert"
    prefix = "bert." if ck.get("bert.embeddings.position_ids") is not None else ""
    chunks = chunk_layers(ck.config["num_hidden_layers"], pp * vpp, spec.get("layers"))
    out = {}
    for number, layers in enumerate(chunks):
        if number % pp != stage:
            continue
        model = {}
        if number == 0:
            model.update(before(ck, c, prefix))
        for local, i in enumerate(layers):
            layer = bert_layer(ck, i, c, prefix) if is_bert else decoder_layer(ck, i, c, experts)
            root = "encoder" if is_bert else "decoder"
            model.update({f"{root}.layers.{local}.{n}": x for n, x in layer.items()})
        if number == len(chunks) - 1:
            model.update(behind(ck, c, prefix, stage == 0))
            model.update(mtp_layers(ck, c, experts))
        own = f"vp_stages.{number // pp}." if vpp > 1 else ""
        out.update({own + n: x for n, x in model.items()})
    return out


def world(spec):
    return int(np.prod([spec.get(key, 1) for key in ("tp", "pp", "dp", "cp")]))
