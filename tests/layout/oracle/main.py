#!/usr/bin/env python3
"""Compares lay_out with the frameworks' own way of cutting, over many models and layouts.

main.py RULES_DUMP: the tool that prints layouts. Exit status 77 (skipped) without numpy."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed (Debian: python3-numpy)")
    sys.exit(77)

import checkpoints
import fsdp
import megatron
import vllm
from grid import Refused, product_of

LAYOUT = {
    "megatron": megatron.layout,
    "fsdp": fsdp.layout,
    "vllm": vllm.layout,
    "replicated": fsdp.replicated,
}
WORLD = {
    "megatron": megatron.world,
    "fsdp": fsdp.world,
    "vllm": vllm.world,
    "replicated": lambda spec: spec.get("n", 1),
}


def spec_text(framework, spec):
    def value(v):
        return "/".join(map(str, v)) if isinstance(v, (list, tuple)) else str(v)

    items = ",".join(f"{k}={value(v)}" for k, v in spec.items())
    return f"{framework}:{items}" if items else framework


def specs_of(ck):
    """(framework, spec) pairs, small worlds, also ones that the framework refuses."""
    layers = ck.config["num_hidden_layers"]
    experts = ck.config.get("num_experts", ck.config.get("n_routed_experts", 0))
    for tp in (1, 2, 3, 4, 6, 8):
        yield "megatron", {"tp": tp}
        yield "vllm", {"tp": tp}
    for choice in product_of(tp=(1, 2), pp=(2, 3), dp=(1, 2)):
        yield "megatron", choice
        yield "vllm", choice
    yield "megatron", {"tp": 2, "cp": 2, "dp": 2, "pp": 2}
    yield "megatron", {"tp": 2, "pp": 2, "vpp": 2}
    yield "megatron", {"pp": 2, "vpp": 3}
    yield "megatron", {"pp": layers}
    yield "megatron", {"pp": 2, "layers": (layers - 1, 1)}
    yield "megatron", {"pp": 3, "layers": (1, 0, layers - 1)}
    yield "megatron", {"pp": 2, "layers": (layers, 1)}
    yield "vllm", {"pp": 4}
    yield "vllm", {"tp": 2, "dp": 2, "engines": 2}
    if experts:
        for ep, etp in ((2, None), (4, 1), (2, 1), (2, 2), (3, 1), (1, 2)):
            spec = {"tp": 2, "dp": 6 if ep == 3 else 4, "ep": ep}
            yield "megatron", spec if etp is None else dict(spec, etp=etp)
        yield "megatron", {"tp": 2, "pp": 2, "cp": 2, "ep": 4, "etp": 1}
        for tp, dp in ((1, 2), (2, 2), (2, 3), (4, 1), (2, 7)):
            yield "vllm", {"tp": tp, "dp": dp, "ep": tp * dp}
            yield "vllm", {"tp": tp, "dp": dp}
        yield "vllm", {"tp": 2, "pp": 2, "dp": 2, "ep": 4, "engines": 2}
    for shards in (1, 2, 3, 5, 8, 16, 24, 48):
        yield "fsdp", {"shards": shards}
        yield "fsdp", {"shards": shards, "flat": 1}
    yield "fsdp", {"shards": 3, "replicas": 2}
    yield "fsdp", {"shards": 2, "replicas": 3, "flat": 1}
    yield "replicated", {"n": 2}


def records(path):
    """(header, cells of each buffer by name) from the tool's output."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        header = json.loads(data[at + 8 : at + 8 + length])
        at += 8 + length
        buffers = {}
        for name, dtype, shape in header.get("buffers", []):
            count = int(np.prod(shape, dtype=np.int64))
            cells = np.frombuffer(data, dtype="<i8", count=count, offset=at).reshape(shape)
            assert name not in buffers, f"{header['spec']}: two buffers {name}"
            buffers[name] = (dtype, cells)
            at += 8 * count
        yield header, buffers


def dtype_of(ck, cells):
    """The type of the tensors that a parameter is made of."""
    numbers = np.unique(cells[cells >= 0] >> 40)
    names = list(ck.tensors)
    types = {ck.dtypes[names[n]] for n in numbers}
    return types.pop() if len(types) == 1 else None


def compare(ck, got, want):
    """None, or what differs."""
    if got.keys() != want.keys():
        extra, missing = got.keys() - want.keys(), want.keys() - got.keys()
        return f"extra {sorted(extra)[:3]}, missing {sorted(missing)[:3]}"
    for name, (dtype, cells) in got.items():
        if cells.shape != want[name].shape:
            return f"{name}: shape {cells.shape}, oracle {want[name].shape}"
        if not np.array_equal(cells, want[name]):
            at = tuple(int(i[0]) for i in np.nonzero(cells != want[name]))
            return f"{name}{list(at)}: {cells[at]:#x}, oracle {want[name][at]:#x}"
        if dtype_of(ck, want[name]) not in (dtype, None):
            return f"{name}: type {dtype}"
    return None


def check_checkpoint(tool, ck, folder, counts):
    cases = {spec_text(*case): case for case in specs_of(ck)}
    source, result = folder / "in.json", folder / "out.bin"
    request = {"config": ck.config, "tensors": ck.rows(), "specs": list(cases)}
    source.write_text(json.dumps(request))
    subprocess.run([tool, source, result], check=True)
    failures = []
    seen = {}
    for header, got in records(result):
        text, rank = header["spec"], header["rank"]
        framework, spec = cases[text]
        seen[text] = seen.get(text, 0) + 1
        try:
            if "code" in header and rank < 0:
                raise AssertionError(f"not parsed: {header['message']}")
            want = LAYOUT[framework](spec, ck, rank)
        except Refused:
            fault = None if header.get("code") == "invalid_argument" else "not refused"
            counts["refused"] += 1
        else:
            fault = header.get("message") or compare(ck, got, want)
            counts["equal"] += fault is None
        if fault:
            failures.append(f"{ck.name} {text} rank {rank}: {fault}")
    for text, (framework, spec) in cases.items():
        if seen.get(text) != WORLD[framework](spec):
            failures.append(f"{ck.name} {text}: {seen.get(text)} ranks")
    counts["specs"] += len(cases)
    return failures


def main():
    counts = {"specs": 0, "equal": 0, "refused": 0}
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for ck in checkpoints.all_checkpoints():
            failures += check_checkpoint(sys.argv[1], ck, pathlib.Path(folder), counts)
    for failure in failures[:20]:
        print(failure)
    print(
        f"{counts['specs']} layouts: {counts['equal']} ranks equal to the oracle, "
        f"{counts['refused']} refused by both, {len(failures)} wrong"
    )
    # A comparison that compares nothing must not pass.
    enough = counts["equal"] > 5000 and counts["refused"] > 100
    return 0 if not failures and enough else 1


if __name__ == "__main__":
    sys.exit(main())
