"""FSDP2 ranks in processes of their own make real optimiser steps; vLLM pulls each version over the
plug point; its tokens are those of a fresh load of what the trainer would save.

    fsdp_to_vllm.py TP VERSIONS
"""

import os
import pathlib
import sys
import tempfile
import threading
import time

import vllm_engine


def trainer(rank, world, base, versions):
    import torch
    import transformers
    import models
    import weightbridge as wb
    import weightbridge.torch as wbt
    from safetensors.torch import save_file
    from test_fsdp import full_checkpoint, shared_store, trainer_step
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    base = pathlib.Path(base)
    model = transformers.AutoModelForCausalLM.from_pretrained(base / "qwen3-0", dtype=torch.bfloat16)
    table = wb.checkpoint(base / "qwen3-0")
    mesh = init_device_mesh("cpu", (world,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    step = trainer_step(model, models.COMMON["vocab_size"])
    with shared_store(rank, "default") as one:
        publisher = wb.Publisher.create(one, wbt.layout(model, table), rank=rank, world=world,
                                        timeout=120)
        if rank == 0:
            write(base / "store", one.store_url)
        for version in range(1, versions + 1):
            if version > 1:
                publisher.begin_update()
            step(version)
            publisher.publish(version)
            full = full_checkpoint(model)
            if rank == 0:
                folder = base / f"step-{version}"
                folder.mkdir()
                (folder / "config.json").write_bytes((base / "qwen3-0/config.json").read_bytes())
                save_file({n: t.contiguous() for n, t in full.items()},
                          folder / "model.safetensors", metadata={"format": "pt"})
                write(base / f"ready-{version}", "")
            wait_for(base / f"go-{version}")
        publisher.close()
        torch.distributed.barrier()


def write(path, text):
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").rename(path)


def wait_for(path, timeout=400):
    end = time.monotonic() + timeout
    while not path.exists():
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.05)
    return path.read_text()


def main(tp, versions):
    import models
    import ranks
    if tp == 1:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    with tempfile.TemporaryDirectory() as name:
        base = pathlib.Path(name)
        folder = models.folder(base, "qwen3", 0)
        failed = []

        def run():
            try:
                ranks.run(trainer, 2, name, versions, timeout=900)
            except AssertionError as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        llm = vllm_engine.engine(folder, tp, True)
        store = wait_for(base / "store")
        llm.init_weight_transfer_engine({"init_info": {"store": store, "token": "secret"}})
        got = []
        for version in range(1, versions + 1):
            wait_for(base / f"ready-{version}")
            llm.start_weight_update()
            llm.update_weights({"update_info": {"version": version}})
            llm.finish_weight_update()
            got.append(vllm_engine.tokens(llm))
            write(base / f"go-{version}", "")
        thread.join()
        assert not failed, failed
        vllm_engine.end(llm)
        for version in range(1, versions + 1):
            llm = vllm_engine.engine(str(base / f"step-{version}"), tp, False)
            assert vllm_engine.tokens(llm) == got[version - 1], f"tokens of version {version}"
            vllm_engine.end(llm)
        assert len({str(g) for g in got}) > 1, "no step changed a token"
    print(f"FSDP2 over 2 ranks to vLLM tp={tp}: {versions} versions, same tokens as a fresh load")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
