"""The probed layout of a live vLLM model, element by element against the rules: vllm_rules.py FAMILY TP

Each rank asks for an equal Layout.diff; buffers that the rules do not know hold nothing of the
checkpoint."""

import os
import sys
import tempfile

import vllm_end_to_end


def compare(worker, folder, family, tp):
    """In each worker of vLLM."""
    import weightbridge as wb
    import weightbridge.vllm as wbv
    model, config = worker.model_runner.model, worker.vllm_config
    before = {n: t.clone() for n, t in wbv.buffers_of(model).items()}
    table = wb.checkpoint(folder)
    learnt = wbv.layout(model, table, config)
    for name, tensor in wbv.buffers_of(model).items():
        assert tensor.equal(before[name]), f"{name} is not as before"
    rules = wb.Layout.from_rules(table, folder, f"vllm:tp={tp}", worker.rank)
    return places(rules, False), places(learnt.layout, True)


def places(layout, probed):
    """(tensor, coordinates) -> byte places, of every element, under the rules' buffer names."""
    import itertools
    buffers = layout.buffers()
    found = {}
    for piece in layout.pieces():
        name = buffers[piece.buffer].name
        if probed:
            name = name.replace(".routed_experts.", ".")
        held = found.setdefault(piece.tensor, {})
        for index in itertools.product(*map(range, piece.count)):
            element = tuple(s + i * t for s, i, t in zip(piece.start, index, piece.step))
            at = piece.offset + sum(i * s for i, s in zip(index, piece.stride))
            held.setdefault(element, set()).add((name, at))
    return found


def main(family, tp):
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    if tp == 1:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import models
    with tempfile.TemporaryDirectory() as base:
        folder = models.folder(base, family, 0, vocab_size=130)
        llm = vllm_end_to_end.engine(folder, tp, True)
        for rank, (rules, probed) in enumerate(llm.collective_rpc(compare, args=(folder, family, tp))):
            assert rules.keys() == probed.keys(), rules.keys() ^ probed.keys()
            wrong = sum(1 for tensor in rules for element, at in rules[tensor].items()
                        if not at <= probed[tensor].get(element, set()))
            more = sum(1 for tensor in probed for element in probed[tensor]
                       if element not in rules[tensor])
            assert wrong == more == 0, f"rank {rank}: {wrong} elements elsewhere, {more} more"
    print(f"{family} tp={tp}: equal to the rules")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
