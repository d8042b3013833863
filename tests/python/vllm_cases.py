"""A trainer's weights reach live vLLM models: each case ends with the tokens, and every byte of every
worker's model, of a fresh load of the same checkpoint; the learnt layout is compared with the rules.

    vllm_cases.py FAMILY:tp=N[:ep]:VERSIONS...: one line "CASE ok SECONDS" or "CASE failed: ..." for each

vLLM is imported once: each case is a fork of this process, and vLLM's workers are forks of the case.
"""

import os
import re
import sys
import tempfile
import time
import traceback

import vllm_engine

LIMIT_S = 240


def parse(text):
    family, tp, *rest = text.split(":")
    return family, int(tp.removeprefix("tp=")), "ep" in rest, int(rest[-1])


def run(family, tp, ep, versions):
    import models
    with tempfile.TemporaryDirectory() as base:
        folders = [models.folder(base, family, seed) for seed in range(versions + 1)]
        expected = []
        for folder in folders[1:]:
            llm = vllm_engine.engine(folder, tp, False, ep)
            expected.append((vllm_engine.tokens(llm), vllm_engine.state(llm)))
            vllm_engine.end(llm)
        llm = vllm_engine.engine(folders[0], tp, True, ep)
        first = (vllm_engine.tokens(llm), vllm_engine.state(llm))
        assert len({str(t) for t, _ in [first, *expected]}) == versions + 1, "versions look the same"
        # The last version is the first checkpoint again: the engine's own start is its fresh load.
        _live(llm, folders[1:] + folders[:1], expected + [first], first)
        _compare(llm, folders[0], family, tp, ep)
        vllm_engine.end(llm)


def _live(llm, folders, expected, first):
    import torch
    import transformers
    import weightbridge as wb
    import weightbridge.torch as wbt
    trainer = transformers.AutoModelForCausalLM.from_pretrained(folders[-1])
    table = wb.checkpoint(folders[-1])
    with wb.Job.open("embed:127.0.0.1:0", token="secret", timeout=20) as job:
        publisher = wb.Publisher.create(job, wbt.layout(trainer, table), timeout=20)
        llm.init_weight_transfer_engine({"init_info": {"store": job.store_url, "token": "secret"}})
        now = first
        same(llm, now, "after probing")
        for version, folder in enumerate(folders, 1):
            other = transformers.AutoModelForCausalLM.from_pretrained(folder)
            if version > 1:
                publisher.begin_update()
            with torch.no_grad():
                for name, mine in wbt.tensors_of(trainer).items():
                    mine.copy_(wbt.tensors_of(other)[name])
            publisher.publish(version)
            same(llm, now, "after publishing alone")
            llm.start_weight_update()
            llm.update_weights({"update_info": {"version": version}})
            llm.finish_weight_update()
            now = expected[version - 1]
            same(llm, now, f"of version {version}")
        publisher.close()
        llm.collective_rpc(_leave)


def same(llm, expected, what):
    tokens, state = expected
    for rank, (has, wants) in enumerate(zip(vllm_engine.state(llm), state, strict=True)):
        differ = [n for n in wants.keys() | has.keys() if has.get(n) != wants.get(n)]
        assert not differ, f"tensors of rank {rank} {what}: {sorted(differ)[:5]} of {len(differ)}"
    assert vllm_engine.tokens(llm) == tokens, f"tokens {what}"


def _leave(worker):
    """Keeps the layout for the comparison; the job ends before the engine does."""
    worker.learnt = worker.weight_transfer_engine._learnt
    worker.weight_transfer_engine.shutdown()


def _compare(llm, folder, family, tp, ep):
    for rank, wrong in enumerate(llm.collective_rpc(_differences, args=(folder, tp, ep))):
        assert not wrong, f"rank {rank}, against the rules: {wrong}"


def _differences(worker, folder, tp, ep):
    """Where the layout that the pulls used and the rules disagree, in each worker of vLLM."""
    import weightbridge as wb
    import weightbridge.vllm as wbv
    table = wb.checkpoint(folder)
    spec = f"vllm:tp={tp}" + (f",ep={tp}" if ep else "")
    rules = wb.Layout.from_rules(table, folder, spec, worker.rank)
    probed = worker.learnt.layout
    shapes = {t.name: t.shape for t in table.tensors()}
    buffers = sorted({_name(b.name) for one in (rules, probed) for b in one.buffers()})
    ours, theirs = _places(rules, shapes, buffers), _places(probed, shapes, buffers)
    packed = wbv.packs_experts(worker.model_runner.model)
    return [f"{tensor}: {text}" for tensor in sorted(ours.keys() | theirs.keys())
            if (text := _tensor(ours.get(tensor), theirs.get(tensor),
                                packed and re.search(r"\.experts\.\d", tensor)))]


def _name(buffer):
    return buffer.replace(".routed_experts.", ".")


def _places(layout, shapes, buffers):
    """tensor -> (elements, places): its elements as flat indices, and where each is."""
    import numpy as np
    names = layout.buffers()
    found = {}
    for piece in layout.pieces():
        shape = shapes[piece.tensor]
        element, place = np.int64(0), np.int64(piece.offset)
        pitch = np.cumprod([1, *reversed(shape[1:])])[::-1]
        for axis, count in enumerate(piece.count):
            index = np.arange(count).reshape([-1] + [1] * (len(shape) - 1 - axis))
            element = element + (piece.start[axis] + index * piece.step[axis]) * pitch[axis]
            place = place + index * piece.stride[axis]
        element, place = np.broadcast_arrays(element, place)
        at = (element.astype(np.int64) * len(buffers) + buffers.index(_name(names[piece.buffer].name)))
        found.setdefault(piece.tensor, []).append((element.ravel(), (at << 32 | place).ravel()))
    return {t: [np.unique(np.concatenate(parts)) for parts in zip(*pieces)]
            for t, pieces in found.items()}


def _tensor(rules, probed, elements_only):
    """The CPU kernel packs experts in an order of its own, which the rules do not speak of: of them
    only the elements that the rank holds are compared."""
    import numpy as np
    if rules is None or probed is None:
        return "held by " + ("the rules" if probed is None else "the model") + " alone"
    if not np.array_equal(rules[0], probed[0]):
        return f"{len(rules[0])} elements by the rules, {len(probed[0])} in the model"
    elsewhere = 0 if elements_only else len(np.setdiff1d(rules[1], probed[1]))
    return f"{elsewhere} elements elsewhere" if elsewhere else ""


def _give_experts_their_map():
    """vLLM 0.32's CPU kernel for experts leaves the map of experts to ranks unread: with expert
    parallelism it reads outside of its weights and dies. Here it gets the ids of its own experts,
    and weight 0 for those of other ranks. What is loaded, and where, is as in vLLM."""
    import inspect
    from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts
    kernel = CPUUnquantizedExperts.apply
    signature = inspect.signature(kernel)

    def apply(self, *arguments, **named):
        call = signature.bind(self, *arguments, **named)
        given = call.arguments
        if given["expert_map"] is not None:
            ids = given["expert_map"][given["topk_ids"].long()]
            given["topk_weights"] = given["topk_weights"] * (ids >= 0)
            given["topk_ids"] = ids.clamp(min=0).to(given["topk_ids"].dtype)
        kernel(*call.args, **call.kwargs)

    CPUUnquantizedExperts.apply = apply


def _case(text, queue):
    try:
        os.setsid()  # vLLM's workers end with the case
        run(*parse(text))
        queue.put("")
    except BaseException:
        queue.put(traceback.format_exc())


def main(cases):
    import torch
    import transformers
    import vllm
    import models
    import weightbridge.torch
    import weightbridge.vllm
    torch.set_num_threads(1)
    _give_experts_their_map()
    fork = vllm_engine.fork_workers()
    failed = False
    for text in cases:
        begin = time.monotonic()
        queue = fork.Queue()
        child = fork.Process(target=_case, args=(text, queue))
        child.start()
        try:
            error = queue.get(timeout=LIMIT_S)
        except Exception:
            error = f"no answer in {LIMIT_S} s"
        child.join(30)
        if child.is_alive():
            os.killpg(child.pid, 9)
            child.join()
        failed |= bool(error)
        seconds = f"{time.monotonic() - begin:.1f}"
        print(f"{text} ok {seconds}" if not error else f"{text} failed: {error!r}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
