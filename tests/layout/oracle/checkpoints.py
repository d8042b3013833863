"""Tiny checkpoints of each model family. The value of an element is its own coordinate:
tensor number (in the order of names) << 40 | index in the flattened tensor."""

import numpy as np

UNMAPPED = -1  # in no checkpoint, kept
ZERO = -2  # filled with zero at each pull


class Checkpoint:
    """config: as in config.json. tensors: name -> array of coordinates; dtypes: name -> spelling."""

    def __init__(self, name, config, declared):
        self.name = name
        self.config = config
        self.dtypes = {n: dtype for n, _, dtype in declared}
        self.tensors = {}
        for number, (n, shape, _) in enumerate(sorted(declared)):
            count = int(np.prod(shape, dtype=np.int64))
            self.tensors[n] = (number << 40) + np.arange(count, dtype=np.int64).reshape(shape)

    def __getitem__(self, name):
        return self.tensors[name]

    def get(self, name):
        return self.tensors.get(name)

    def rows(self):
        return [[n, self.dtypes[n], list(t.shape)] for n, t in self.tensors.items()]


def decoder(
    name,
    family="qwen3",
    layers=3,
    hidden=8,
    heads=4,
    kv_heads=2,
    head_dim=4,
    ffn=24,
    vocab=96,
    tied=False,
    experts=0,
    moe_ffn=12,
    dense_first=0,
    tied_head_stored=False,
    attention_bias=False,
):
    """llama, qwen2, qwen3, qwen3_moe."""
    config = {
        "model_type": family,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
    }
    if experts:
        config.update(num_experts=experts, moe_intermediate_size=moe_ffn)
        config.update(mlp_only_layers=list(range(dense_first)))
    q, kv = heads * head_dim, kv_heads * head_dim
    out = [("model.embed_tokens.weight", [vocab, hidden]), ("model.norm.weight", [hidden])]
    if not tied or tied_head_stored:
        out.append(("lm_head.weight", [vocab, hidden]))
    for i in range(layers):
        at = f"model.layers.{i}."
        for proj, rows in (("q", q), ("k", kv), ("v", kv)):
            out.append((f"{at}self_attn.{proj}_proj.weight", [rows, hidden]))
            if family == "qwen2" or attention_bias:
                out.append((f"{at}self_attn.{proj}_proj.bias", [rows]))
        out.append((f"{at}self_attn.o_proj.weight", [hidden, q]))
        if attention_bias:
            out.append((f"{at}self_attn.o_proj.bias", [hidden]))
        if family.startswith("qwen3"):
            out += [(f"{at}self_attn.{n}_norm.weight", [head_dim]) for n in "qk"]
        out += [(f"{at}{n}.weight", [hidden]) for n in ("input_layernorm", "post_attention_layernorm")]
        if experts and i >= dense_first:
            out.append((f"{at}mlp.gate.weight", [experts, hidden]))
            for e in range(experts):
                out += mlp(f"{at}mlp.experts.{e}.", hidden, moe_ffn)
        else:
            out += mlp(f"{at}mlp.", hidden, ffn)
    return Checkpoint(name, config, [(n, s, "BF16") for n, s in out])


def mlp(at, hidden, ffn):
    return [
        (f"{at}gate_proj.weight", [ffn, hidden]),
        (f"{at}up_proj.weight", [ffn, hidden]),
        (f"{at}down_proj.weight", [hidden, ffn]),
    ]


def deepseek(
    name,
    family="deepseek_v3",
    layers=3,
    hidden=8,
    heads=4,
    q_rank=6,
    kv_rank=10,
    nope=4,
    rope=2,
    v_dim=4,
    ffn=24,
    vocab=100,
    experts=8,
    moe_ffn=12,
    shared=2,
    dense_first=1,
    mtp=0,
    mtp_stored=True,
):
    config = {
        "model_type": family,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "tie_word_embeddings": False,
        "q_lora_rank": q_rank or None,
        "kv_lora_rank": kv_rank,
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": rope,
        "v_head_dim": v_dim,
        "n_routed_experts": experts,
        "moe_intermediate_size": moe_ffn,
        "n_shared_experts": shared or None,
        "first_k_dense_replace": dense_first,
        "num_nextn_predict_layers": mtp,
    }
    out = [
        ("model.embed_tokens.weight", [vocab, hidden], "BF16"),
        ("model.norm.weight", [hidden], "BF16"),
        ("lm_head.weight", [vocab, hidden], "BF16"),
    ]
    for i in range(layers + (mtp if mtp_stored else 0)):
        at = f"model.layers.{i}."
        attn = at + "self_attn."
        layer = [(f"{attn}kv_a_proj_with_mqa.weight", [kv_rank + rope, hidden])]
        layer.append((f"{attn}kv_a_layernorm.weight", [kv_rank]))
        layer.append((f"{attn}kv_b_proj.weight", [heads * (nope + v_dim), kv_rank]))
        layer.append((f"{attn}o_proj.weight", [hidden, heads * v_dim]))
        if q_rank:
            layer.append((f"{attn}q_a_proj.weight", [q_rank, hidden]))
            layer.append((f"{attn}q_a_layernorm.weight", [q_rank]))
            layer.append((f"{attn}q_b_proj.weight", [heads * (nope + rope), q_rank]))
        else:
            layer.append((f"{attn}q_proj.weight", [heads * (nope + rope), hidden]))
        layer += [(f"{at}{n}.weight", [hidden]) for n in ("input_layernorm", "post_attention_layernorm")]
        if i < dense_first:
            layer += mlp(f"{at}mlp.", hidden, ffn)
        else:
            layer.append((f"{at}mlp.gate.weight", [experts, hidden]))
            out.append((f"{at}mlp.gate.e_score_correction_bias", [experts], "F32"))
            for e in range(experts):
                layer += mlp(f"{at}mlp.experts.{e}.", hidden, moe_ffn)
            if shared:
                layer += mlp(f"{at}mlp.shared_experts.", hidden, moe_ffn * shared)
        if i >= layers:
            layer.append((f"{at}embed_tokens.weight", [vocab, hidden]))
            layer.append((f"{at}shared_head.head.weight", [vocab, hidden]))
            layer.append((f"{at}shared_head.norm.weight", [hidden]))
            layer += [(f"{at}{n}.weight", [hidden]) for n in ("enorm", "hnorm")]
            layer.append((f"{at}eh_proj.weight", [hidden, 2 * hidden]))
        out += [(n, s, "BF16") for n, s in layer]
    return Checkpoint(name, config, out)


def bert(name, prefix="", layers=2, hidden=16, heads=4, ffn=24, vocab=90, positions=12, pooler=True):
    config = {
        "model_type": "bert",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": ffn,
        "vocab_size": vocab,
    }
    out = [
        ("embeddings.position_ids", [1, positions], "I64"),
        ("embeddings.word_embeddings.weight", [vocab, hidden], "F32"),
        ("embeddings.position_embeddings.weight", [positions, hidden], "F32"),
        ("embeddings.token_type_embeddings.weight", [2, hidden], "F32"),
    ]

    def linear(at, rows, columns):
        return [(f"{at}.weight", [rows, columns], "F32"), (f"{at}.bias", [rows], "F32")]

    def norm(at):
        return [(f"{at}.weight", [hidden], "F32"), (f"{at}.bias", [hidden], "F32")]

    out += norm("embeddings.LayerNorm")
    for i in range(layers):
        at = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            out += linear(f"{at}attention.self.{part}", hidden, hidden)
        out += linear(f"{at}attention.output.dense", hidden, hidden)
        out += norm(f"{at}attention.output.LayerNorm")
        out += linear(f"{at}intermediate.dense", ffn, hidden)
        out += linear(f"{at}output.dense", hidden, ffn)
        out += norm(f"{at}output.LayerNorm")
    if pooler:
        out += linear("pooler.dense", hidden, hidden)
    return Checkpoint(name, config, [(prefix + n, s, d) for n, s, d in out])


def all_checkpoints():
    return [
        decoder("llama", "llama", heads=8, kv_heads=2, layers=5, vocab=131),
        decoder("llama-biased", "llama", heads=4, kv_heads=4, attention_bias=True, ffn=20),
        decoder("qwen2", "qwen2", heads=6, kv_heads=2, hidden=12, layers=4, vocab=200),
        decoder("qwen3", heads=16, kv_heads=4, layers=7, vocab=64),
        decoder("qwen3-tied", tied=True, heads=8, kv_heads=8, layers=4, vocab=300),
        decoder("qwen3-tied-stored", tied=True, tied_head_stored=True, layers=2, vocab=65),
        decoder("qwen3-one-group", heads=8, kv_heads=1, head_dim=8, layers=2, vocab=129),
        decoder("qwen3-moe", "qwen3_moe", experts=8, layers=4, heads=8, kv_heads=4),
        decoder("qwen3-moe-mixed", "qwen3_moe", experts=6, layers=3, dense_first=1, moe_ffn=16),
        deepseek("deepseek", layers=5),
        deepseek("deepseek-mtp", mtp=1, layers=4, heads=8, experts=4),
        deepseek("deepseek-mtp-dropped", mtp=1, mtp_stored=False, shared=1, layers=2),
        deepseek("deepseek-without-q-rank", q_rank=0, shared=0, dense_first=0, layers=2),
        deepseek("kimi", family="kimi_k2", experts=12, layers=3, vocab=163),
        bert("bert"),
        bert("bert-prefixed", prefix="bert.", heads=8, pooler=False, layers=3, vocab=64),
    ]
