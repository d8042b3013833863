"""A trainer process's weights reach a live vLLM model; its tokens are those of a fresh load.

    vllm_end_to_end.py FAMILY TP VERSIONS: run as a script (vLLM's workers are processes of their own)
"""

import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1", OMP_NUM_THREADS="1",
                  VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_NO_USAGE_STATS="1",
                  VLLM_LOGGING_LEVEL="ERROR")

PROMPTS = [{"prompt_token_ids": ids} for ids in ([1, 2, 3, 4], [100, 7, 42], [999, 500, 250, 5, 9])]


def engine(folder, tp, transfer):
    from vllm import LLM
    from vllm.config import WeightTransferConfig
    options = {"weight_transfer_config": WeightTransferConfig(backend="weightbridge")} if transfer else {}
    return LLM(model=folder, skip_tokenizer_init=True, enforce_eager=True, max_model_len=128,
               dtype="bfloat16", tensor_parallel_size=tp, enable_prefix_caching=False, seed=0,
               **options)


def tokens(llm):
    from vllm import SamplingParams
    outputs = llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=12, detokenize=False),
                           use_tqdm=False)
    return [list(o.outputs[0].token_ids) for o in outputs]


def main(family, tp, versions):
    if tp == 1:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import models
    with tempfile.TemporaryDirectory() as base:
        expected = []
        for seed in range(versions + 1):
            llm = engine(models.folder(base, family, seed), tp, False)
            expected.append(tokens(llm))
            end(llm)
        assert len({str(e) for e in expected}) == len(expected), "the versions cannot be told apart"
        _live(family, tp, versions, base, expected)


def end(llm):
    import gc
    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()
    from vllm.distributed import cleanup_dist_env_and_memory
    cleanup_dist_env_and_memory()


def _live(family, tp, versions, base, expected):
    import torch
    import transformers
    import weightbridge as wb
    import weightbridge.torch as wbt
    llm = engine(f"{base}/{family}-0", tp, True)
    assert tokens(llm) == expected[0], "the engine before the first pull"
    trainer = transformers.AutoModelForCausalLM.from_pretrained(f"{base}/{family}-0")
    table = wb.checkpoint(f"{base}/{family}-0")
    with wb.Job.open("embed:127.0.0.1:0", token="secret", timeout=20) as job:
        publisher = wb.Publisher.create(job, wbt.layout(trainer, table), timeout=20)
        llm.init_weight_transfer_engine({"init_info": {"store": job.store_url, "token": "secret"}})
        assert tokens(llm) == expected[0], "probing left other weights"
        for version in range(1, versions + 1):
            other = transformers.AutoModelForCausalLM.from_pretrained(f"{base}/{family}-{version}")
            if version > 1:
                publisher.begin_update()
            with torch.no_grad():
                for name, mine in wbt.tensors_of(trainer).items():
                    mine.copy_(wbt.tensors_of(other)[name])
            publisher.publish(version)
            assert tokens(llm) == expected[version - 1], "publishing alone changed the engine"
            llm.start_weight_update()
            llm.update_weights({"update_info": {"version": version}})
            llm.finish_weight_update()
            assert tokens(llm) == expected[version], f"tokens of version {version}"
        publisher.close()
    print(f"{family} tp={tp}: {versions} versions, same tokens as a fresh load")


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
