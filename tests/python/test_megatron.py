"""Megatron-core ranks over gloo as trainers; every element pulled is compared with what the layout
conventions of the checkpoint say about the gathered Megatron parameters."""

import json
import os
import tempfile
import unittest

import torch
import torch.distributed as dist

import ranks
import weightbridge as wb
import weightbridge.torch as wbt

HIDDEN, HEADS, GROUPS, DIM, WIDTH, LAYERS, VOCABULARY = 64, 8, 4, 16, 96, 2, 512
EXPERTS, EXPERT_WIDTH = 4, 48


def hf_config(moe):
    common = {"vocab_size": VOCABULARY, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
              "intermediate_size": WIDTH, "num_attention_heads": HEADS, "head_dim": DIM,
              "num_key_value_heads": GROUPS, "tie_word_embeddings": False,
              "torch_dtype": "bfloat16", "max_position_embeddings": 512}
    if moe:
        return {**common, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
                "num_experts": EXPERTS, "num_experts_per_tok": 2, "decoder_sparse_step": 1,
                "moe_intermediate_size": EXPERT_WIDTH, "mlp_only_layers": []}
    return {**common, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}


def megatron_model(moe, tp, ep):
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.transformer_config import TransformerConfig
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=tp, expert_model_parallel_size=ep, expert_tensor_parallel_size=1 if ep > 1 else tp)
    options = {}
    if moe:
        options = {"num_moe_experts": EXPERTS, "moe_ffn_hidden_size": EXPERT_WIDTH,
                   "expert_model_parallel_size": ep, "moe_router_topk": 2,
                   "expert_tensor_parallel_size": 1 if ep > 1 else tp}
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, num_query_groups=GROUPS,
        kv_channels=DIM, ffn_hidden_size=WIDTH, gated_linear_unit=True, add_bias_linear=False,
        normalization="RMSNorm", qk_layernorm=True, tensor_model_parallel_size=tp,
        use_cpu_initialization=True, params_dtype=torch.bfloat16, bf16=True,
        activation_func=torch.nn.functional.silu, gradient_accumulation_fusion=False, **options)
    spec = get_gpt_layer_local_spec(num_experts=EXPERTS if moe else None, moe_grouped_gemm=False,
                                    qk_layernorm=True, normalization="RMSNorm")
    return GPTModel(config=config, transformer_layer_spec=spec, vocab_size=VOCABULARY,
                    max_sequence_length=128, share_embeddings_and_output_weights=False)


def gathered(model, world):
    """name -> the parameter of every rank, in order."""
    mine = {n: p.detach().clone() for n, p in model.named_parameters()}
    everyone = [None] * world
    dist.all_gather_object(everyone, mine)
    return everyone


def expected(everyone, moe, tp):
    """The checkpoint that Megatron's parameters stand for, written from the conventions."""
    def whole(name, rank=0):
        return everyone[rank][name]

    def rows(name):
        return torch.cat([everyone[r][name] for r in range(tp)], 0)

    def columns(name):
        return torch.cat([everyone[r][name] for r in range(tp)], 1)

    def halves(parts):
        gate, up = zip(*(p.chunk(2, 0) for p in parts))
        return torch.cat(gate, 0), torch.cat(up, 0)

    found = {"model.embed_tokens.weight": rows("embedding.word_embeddings.weight")[:VOCABULARY],
             "lm_head.weight": rows("output_layer.weight")[:VOCABULARY],
             "model.norm.weight": whole("decoder.final_layernorm.weight")}
    for layer in range(LAYERS):
        theirs, ours = f"decoder.layers.{layer}", f"model.layers.{layer}"
        found[f"{ours}.input_layernorm.weight"] = whole(f"{theirs}.input_layernorm.weight")
        found[f"{ours}.post_attention_layernorm.weight"] = whole(f"{theirs}.pre_mlp_layernorm.weight")
        fused = rows(f"{theirs}.self_attention.linear_qkv.weight").view(
            GROUPS, HEADS // GROUPS + 2, DIM, HIDDEN)
        q, k, v = fused.split([HEADS // GROUPS, 1, 1], 1)
        for part, value in (("q", q), ("k", k), ("v", v)):
            found[f"{ours}.self_attn.{part}_proj.weight"] = value.reshape(-1, HIDDEN)
        for part in ("q", "k"):
            found[f"{ours}.self_attn.{part}_norm.weight"] = whole(
                f"{theirs}.self_attention.{part}_layernorm.weight")
        found[f"{ours}.self_attn.o_proj.weight"] = columns(f"{theirs}.self_attention.linear_proj.weight")
        if not moe:
            gate, up = halves([everyone[r][f"{theirs}.mlp.linear_fc1.weight"] for r in range(tp)])
            found[f"{ours}.mlp.gate_proj.weight"], found[f"{ours}.mlp.up_proj.weight"] = gate, up
            found[f"{ours}.mlp.down_proj.weight"] = columns(f"{theirs}.mlp.linear_fc2.weight")
            continue
        found[f"{ours}.mlp.gate.weight"] = whole(f"{theirs}.mlp.router.weight")
        local = EXPERTS // len(everyone)
        for expert in range(EXPERTS):
            name = f"{theirs}.mlp.experts.local_experts.{expert % local}"
            gate, up = everyone[expert // local][f"{name}.linear_fc1.weight"].chunk(2, 0)
            found[f"{ours}.mlp.experts.{expert}.gate_proj.weight"] = gate
            found[f"{ours}.mlp.experts.{expert}.up_proj.weight"] = up
            found[f"{ours}.mlp.experts.{expert}.down_proj.weight"] = everyone[expert // local][
                f"{name}.linear_fc2.weight"]
    return found


def trainer(rank, world, moe, spec, tp, ep):
    from test_fsdp import receiver_of, shared_store
    torch.manual_seed(7)
    model = megatron_model(moe, tp, ep)
    everyone = gathered(model, world)
    want = expected(everyone, moe, tp)
    table = wb.checkpoint({n: (torch.bfloat16, tuple(t.shape)) for n, t in want.items()})
    with tempfile.TemporaryDirectory() as folder, shared_store(rank, "megatron") as one:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(hf_config(moe), file)
        mirror = wbt.megatron(model, table, folder, spec, rank)
        publisher = wb.Publisher.create(one, mirror.layout, rank=rank, world=world, timeout=60)
        receiver, got = receiver_of(one, table, rank)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for number in (1, 2):
            if number > 1:
                publisher.begin_update()
                for name, parameter in model.named_parameters():
                    torch.manual_seed(number + (rank if "experts" in name else 0) + len(name))
                    parameter.grad = torch.randn_like(parameter)
                optimizer.step()
            # Norms and the router are the same on all ranks, the rest is each rank's own.
            want = expected(gathered(model, world), moe, tp)
            mirror.refresh()
            publisher.publish(number)
            receiver.pull(wb.exactly(number), timeout=60)
            for name, tensor in want.items():
                assert torch.equal(got[name], tensor.to(torch.bfloat16)), (number, name)
            dist.barrier()
        receiver.close()
        publisher.close()
        dist.barrier()


class Megatron(unittest.TestCase):
    def setUp(self):
        try:
            import megatron.core  # noqa: F401
        except ImportError:
            self.skipTest("megatron-core is not installed")

    def test_qwen3_with_two_tensor_parallel_ranks(self):
        ranks.run(trainer, 2, False, "megatron:tp=2", 2, 1)

    def test_experts_over_two_ranks(self):
        ranks.run(trainer, 2, True, "megatron:tp=1,dp=2,ep=2", 1, 2)


if __name__ == "__main__":
    unittest.main()
