"""FSDP2 ranks over gloo as trainers: real optimiser steps; every element that a receiver pulls is
compared with torch's own full_tensor()."""

import unittest

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard

import models
import ranks
import weightbridge as wb
import weightbridge.torch as wbt

STEPS = 3


def shared_store(rank, job_name):
    """The job: rank 0 serves the store."""
    store = [None]
    if rank == 0:
        one = wb.Job.open("embed:127.0.0.1:0", token="secret", name=job_name, timeout=30)
        store = [one.store_url]
    dist.broadcast_object_list(store)
    if rank != 0:
        one = wb.Job.open(store[0], token="secret", name=job_name, timeout=30)
    return one


def receiver_of(one, table, rank):
    layout = wb.Layout.create(table)
    got = {}
    for info in table.tensors():
        got[info.name] = torch.full(info.shape, float("nan")).to(torch_dtype(info.dtype))
        layout.add_tensor(info.name, got[info.name])
    return wb.Receiver.create(one, layout, name=f"receiver-{rank}", index=rank, timeout=30), got


def torch_dtype(dtype):
    return {wb.DType.BF16: torch.bfloat16, wb.DType.F32: torch.float32}[dtype]


def full_checkpoint(model):
    """What the trainer would save: torch's gather, then transformers' own renaming."""
    full = {n: (p.full_tensor() if isinstance(p, DTensor) else p).detach().clone()
            for n, p in model.named_parameters(remove_duplicate=False)}
    if hasattr(model, "save_pretrained"):
        from transformers.core_model_loading import revert_weight_conversion
        full = revert_weight_conversion(model, full)
    return full


def check_steps(rank, world, model, table, step, mirror=False):
    with shared_store(rank, "fsdp") as one:
        mirrored = wbt.Mirror(model, table) if mirror else None
        layout = mirrored.layout if mirror else wbt.layout(model, table)
        publisher = wb.Publisher.create(one, layout, rank=rank, world=world, timeout=60)
        receiver, got = receiver_of(one, table, rank)
        before = None
        for number in range(1, STEPS + 1):
            if number > 1:
                publisher.begin_update()
            step(number)
            if mirrored is not None:
                mirrored.refresh()
            publisher.publish(number)
            receiver.pull(wb.exactly(number), timeout=60)
            full = full_checkpoint(model)
            changed = 0
            for info in table.tensors():
                want = full[info.name].to(torch_dtype(info.dtype))
                assert torch.equal(got[info.name], want), (number, info.name)
                changed += before is not None and not torch.equal(before[info.name], want)
            assert before is None or changed > 0, "the step changed nothing"
            before = {k: v.to(torch_dtype(wb.DType.BF16)) if mirror else v for k, v in full.items()}
            dist.barrier()
        receiver.close()
        publisher.close()
        dist.barrier()


def trainer_step(model, vocabulary):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(number):
        torch.manual_seed(number)
        ids = torch.randint(0, vocabulary, (2, 8))
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    return step


def language_model(rank, world, family, dtype, mirror):
    import transformers
    config = models.config(family, vocab_size=997)  # uneven over any number of ranks
    torch.manual_seed(0)
    model = getattr(transformers, config.architectures[0])(config).to(dtype)
    table = wb.checkpoint(config)
    mesh = init_device_mesh("cpu", (world,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    check_steps(rank, world, model, table, trainer_step(model, 997), mirror)


class Uneven(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.five = torch.nn.Parameter(torch.randn(5, 7))
        self.one = torch.nn.Parameter(torch.randn(1, 3))
        self.experts = torch.nn.Parameter(torch.randn(2, 12, 6))
        self.vector = torch.nn.Parameter(torch.randn(11))

    def forward(self):
        return sum((p ** 2).sum() for p in (self.five, self.one, self.experts, self.vector))


def uneven(rank, world, mesh_shape):
    torch.manual_seed(0)
    model = Uneven()
    table = wb.checkpoint({n: p for n, p in model.named_parameters()})
    names = ("replicate", "shard")[-len(mesh_shape):]
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=names)

    def placement(parameter):
        return Shard(1) if parameter.dim() == 3 else Shard(0)

    fully_shard(model, mesh=mesh, shard_placement_fn=placement)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(number):
        model().backward()
        optimizer.step()
        optimizer.zero_grad()
        model.reshard()

    check_steps(rank, world, model, table, step)


def gathered_is_refused(rank, world):
    model = Uneven()
    table = wb.checkpoint({n: p for n, p in model.named_parameters()})
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    model.unshard()
    try:
        wbt.layout(model, table)
    except wb.FailedPrecondition as error:
        assert "reshard" in str(error)
    else:
        raise AssertionError("the memory of gathered parameters was taken")
    model.reshard()
    wbt.layout(model, table)


def strided_shards(rank, world):
    """FSDP over tensor parallel: both cut the same dimension, unevenly."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = torch.nn.Sequential(torch.nn.Linear(6, 10, bias=False), torch.nn.Linear(10, 6, bias=False))
    table = wb.checkpoint({n: p for n, p in model.named_parameters()})
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(number):
        (model(torch.ones(3, 6)) ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        model.reshard()

    check_steps(rank, world, model, table, step)


class Fsdp(unittest.TestCase):
    def test_qwen3_over_2_ranks(self):
        ranks.run(language_model, 2, "qwen3", torch.bfloat16, False)

    def test_qwen3_moe_over_3_ranks_fused_experts_under_checkpoint_names(self):
        ranks.run(language_model, 3, "qwen3_moe", torch.bfloat16, False)

    def test_fp32_masters_with_a_bf16_mirror(self):
        ranks.run(language_model, 2, "qwen3", torch.float32, True)

    def test_uneven_shards_of_any_dimension(self):
        for world in (2, 3):
            with self.subTest(world=world):
                ranks.run(uneven, world, (world,))

    def test_hsdp_replicas(self):
        ranks.run(uneven, 4, (2, 2))

    def test_fsdp_over_tensor_parallel(self):
        ranks.run(strided_shards, 4)

    def test_gathered_parameters_are_refused(self):
        ranks.run(gathered_is_refused, 2)


if __name__ == "__main__":
    unittest.main()
