"""FSDP2 ranks in processes of their own make real optimiser steps; each version is pulled by vLLM in
this process and by `vllm serve` over HTTP (pause, update, resume); tokens are those of a fresh load of
what the trainer would save.

    fsdp_to_vllm.py TP VERSIONS
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

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


class Server:
    """`vllm serve`, driven over HTTP alone."""

    def __init__(self, folder, tp, log):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", folder,
             "--host", "127.0.0.1", "--port", str(port), "--tensor-parallel-size", str(tp),
             "--weight-transfer-config", json.dumps({"backend": "weightbridge"}),
             "--skip-tokenizer-init", "--enable-scale-out", "--enforce-eager", "--dtype", "bfloat16",
             "--max-model-len", str(vllm_engine.LIMIT), "--no-enable-prefix-caching", "--seed", "0"],
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env=dict(os.environ, VLLM_SERVER_DEV_MODE="1", VLLM_ENABLE_V1_MULTIPROCESSING="1"))

    def said(self):
        self.log.seek(0)
        return self.log.read()[-4000:]

    def ready(self, timeout=300):
        end = time.monotonic() + timeout
        while True:
            try:
                return self.get("/health")
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise AssertionError(f"vllm serve does not answer:\n{self.said()}") from None
                time.sleep(0.2)

    def get(self, path):
        with urllib.request.urlopen(self.base + path, timeout=30) as answer:
            return answer.read()

    def post(self, path, body=None):
        request = urllib.request.Request(
            self.base + path, json.dumps(body or {}).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:1000]}\n{self.said()}") from error

    def update(self, version):
        self.post("/pause?mode=wait")
        assert json.loads(self.get("/is_paused"))["is_paused"]
        self.post("/start_weight_update")
        self.post("/update_weights", {"update_info": {"version": version}})
        self.post("/finish_weight_update", {"weight_version": str(version)})
        self.post("/resume")
        assert json.loads(self.get("/weight_info"))["weight_version"] == str(version)

    def tokens(self):
        return [self.post("/inference/v1/generate", {
            "token_ids": ids, "stream": False,
            "sampling_params": {"temperature": 0, "max_tokens": vllm_engine.NEW_TOKENS,
                                "detokenize": False}})["choices"][0]["token_ids"]
                for ids in vllm_engine.PROMPTS]

    def end(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(60)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(10)


def main(tp, versions):
    vllm_engine.fork_workers()
    import models
    with tempfile.TemporaryDirectory() as name, open(f"{name}/serve.log", "w+", encoding="utf-8") as log:
        base = pathlib.Path(name)
        folder = models.folder(base, "qwen3", 0)
        train = subprocess.Popen([sys.executable, __file__, "train", name, str(versions)])
        server = Server(folder, tp, log)
        try:
            in_process, over_http = pulls(base, folder, server, tp, versions, train)
        finally:
            server.end()
            if train.poll() is None:
                train.terminate()
            train.wait(60)
        for version in range(1, versions + 1):
            llm = vllm_engine.engine(str(base / f"step-{version}"), tp, False)
            assert vllm_engine.tokens(llm) == in_process[version - 1], f"tokens of version {version}"
            alone = vllm_engine.tokens_one_by_one(llm)
            assert alone == over_http[version - 1], f"tokens of version {version} over HTTP"
            vllm_engine.end(llm)
        for got in (in_process, over_http):
            assert len({str(one) for one in got}) > 1, "no step changed a token"
    print(f"FSDP2 over 2 ranks to vLLM tp={tp}: {versions} versions, same tokens as a fresh load")


def pulls(base, folder, server, tp, versions, train):
    """Each version into an engine of this process and into the server, before the trainer goes on."""
    llm = vllm_engine.engine(folder, tp, True)
    init = {"init_info": {"store": wait_for(base / "store"), "token": "secret"}}
    llm.init_weight_transfer_engine(init)
    server.ready()
    before = server.tokens()
    server.post("/init_weight_transfer_engine", init)
    assert server.tokens() == before, "probing left other weights"
    in_process, over_http = [], []
    for version in range(1, versions + 1):
        wait_for(base / f"ready-{version}")
        llm.start_weight_update()
        llm.update_weights({"update_info": {"version": version}})
        llm.finish_weight_update()
        in_process.append(vllm_engine.tokens(llm))
        server.update(version)
        over_http.append(server.tokens())
        if version < versions:
            write(base / f"go-{version}", "")
    server.post("/shutdown_weight_transfer_engine")
    vllm_engine.end(llm)
    write(base / f"go-{versions}", "")
    assert train.wait(120) == 0, "the trainer"
    return in_process, over_http


if __name__ == "__main__":
    if sys.argv[1] == "train":
        import ranks
        ranks.run(trainer, 2, sys.argv[2], int(sys.argv[3]), timeout=900)
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
