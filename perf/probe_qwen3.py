"""Probing the full Qwen3-0.6B configuration through a loader that only copies, beside one plain load of a
checkpoint file in the page cache: a table of stages, and the limits (< 3 plain loads, < 10 % of the
model's memory; what puts the weights back is the caller's reload, counted apart).

    probe_qwen3.py: needs the installed package, torch and transformers; 3 GB of memory

Measured on two cores under a load of 7: 8 passes of the loader, 12.8 MB (1.1 % of the model), 5.4 and 6.2
plain loads, of which 4.4 and 4.9 are the loader's own passes: over the limit of time.
"""

import os
import sys
import tempfile
import threading
import time

import torch
import transformers
import weightbridge as wb


def config():
    made = transformers.Qwen3Config(
        vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
        num_attention_heads=16, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True)
    made.architectures, made.dtype = ["Qwen3ForCausalLM"], torch.bfloat16
    return made


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Peak:
    """The most memory of this process while it lasts, over that at its begin."""

    def __enter__(self):
        self._begin = self._most = resident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._over.wait(0.002):
            self._most = max(self._most, resident())

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self.bytes = max(self._most, resident()) - self._begin


def main():
    torch.set_default_dtype(torch.bfloat16)
    table = wb.checkpoint(config())
    live = {t.name: torch.randn(t.shape) for t in table.tensors()}
    size = sum(t.nbytes for t in live.values())
    with tempfile.TemporaryDirectory() as folder:
        from safetensors import safe_open
        from safetensors.torch import save_file
        path = f"{folder}/model.safetensors"
        save_file(live, path)

        def load(weights):
            for name, tensor in weights:
                live[name].copy_(tensor)

        def plain():
            with safe_open(path, "pt") as file:
                load((name, file.get_tensor(name)) for name in file.keys())

        plain()  # the file is in the page cache, and every page of the tensors is there
        times, reloads = [], []
        for _ in range(3):
            begin = time.perf_counter()
            plain()
            times.append(time.perf_counter() - begin)

        def reload():
            begin = time.perf_counter()
            plain()
            reloads.append(time.perf_counter() - begin)

        loads = []

        def timed(weights):
            begin = time.perf_counter()
            load(weights)
            loads.append(time.perf_counter() - begin)

        with Peak() as peak:
            begin = time.perf_counter()
            probed = wb.probe(timed, table, lambda: live, restore="reload", reload=reload)
            total = time.perf_counter() - begin
        probed.require_complete()
    one, probing = min(times), total - sum(reloads)
    print(f"Qwen3-0.6B: {len(table)} tensors, {size / 1e9:.2f} GB")
    for what, seconds in (("one plain load", one), ("probing, without reload", probing),
                          (f"  {len(loads)} passes of the loader", sum(loads)),
                          ("  planes, decoding, verification", probing - sum(loads)),
                          ("reload", sum(reloads))):
        print(f"{what:36} {seconds:7.3f} s {seconds / one:6.2f} plain loads")
    print("each pass of the loader: " + " ".join(f"{seconds:.2f}" for seconds in loads) + " s")
    memory = probed.summary["peak_bytes"] if "peak_bytes" in probed.summary else peak.bytes
    print(f"{'memory':36} {memory / 1e6:7.1f} MB {100 * memory / size:5.2f} % "
          f"(process, with mapped file pages: {peak.bytes / 1e6:.1f} MB)")
    bad = probing >= 3 * one or memory >= size / 10
    print("over the limit" if bad else "within the limits")
    return bad


if __name__ == "__main__":
    sys.exit(main())
