"""vLLM on CPU for the tests: engines of tiny models, their tokens, and every byte their workers hold."""

import gc
import os

os.environ.update(HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1", OMP_NUM_THREADS="1",
                  VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_NO_USAGE_STATS="1",
                  VLLM_LOGGING_LEVEL="ERROR", VLLM_ALLOW_INSECURE_SERIALIZATION="1")

PROMPTS = ([1, 2, 3, 4], [100, 7, 42], [999, 500, 250, 5, 9])
NEW_TOKENS = 12
LIMIT = 128


def fork_workers():
    """On CPU vLLM spawns its workers, which import it again: 20 s more for each engine. Here they are
    forks of this process, which holds no threads."""
    import multiprocessing
    import vllm.v1.executor.multiproc_executor as executor
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    fork = multiprocessing.get_context("fork")
    executor.get_mp_context = lambda: fork
    return fork


def engine(folder, tp, transfer, ep=False):
    from vllm import LLM
    from vllm.config import WeightTransferConfig
    options = {"weight_transfer_config": WeightTransferConfig(backend="weightbridge")} if transfer else {}
    return LLM(model=folder, skip_tokenizer_init=True, enforce_eager=True, max_model_len=LIMIT,
               dtype="bfloat16", tensor_parallel_size=tp, enable_expert_parallel=ep,
               enable_prefix_caching=False, seed=0, **options)


def tokens(llm, prompts=PROMPTS):
    from vllm import SamplingParams
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in prompts],
                           SamplingParams(temperature=0, max_tokens=NEW_TOKENS, detokenize=False),
                           use_tqdm=False)
    return [list(o.outputs[0].token_ids) for o in outputs]


def tokens_one_by_one(llm):
    """As a client of a server asks: rounding differs from that of a batch."""
    return [tokens(llm, [ids])[0] for ids in PROMPTS]


def state(llm):
    """Of each worker: name -> digest of every tensor of its model, derived copies included."""
    return llm.collective_rpc(_state)


def _state(worker):
    import hashlib
    import torch
    import weightbridge.vllm as wbv
    model = worker.model_runner.model
    tensors = wbv.buffers_of(model)
    for name, module in model.named_modules():  # MLA keeps what it derives in plain attributes
        for key, value in vars(module).items():
            if isinstance(value, torch.Tensor) and "cache" not in key:
                tensors[f"{name}.{key}"] = value
    return {n: hashlib.sha256(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy()).hexdigest()
            for n, t in tensors.items()}


def end(llm):
    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()
    from vllm.distributed import cleanup_dist_env_and_memory
    cleanup_dist_env_and_memory()
