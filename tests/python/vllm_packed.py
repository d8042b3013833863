"""vLLM's CPU kernels keep packed weights out of reach: the layout is refused, with the switch."""

import os
import sys
import tempfile

import vllm_engine


def main():
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import models
    with tempfile.TemporaryDirectory() as base:
        folder = models.folder(base, "llama", 0)
        llm = vllm_engine.engine(folder, 1, True)
        model = llm.llm_engine.model_executor.driver_worker.worker.model_runner.model
        if all(p.numel() for p in model.parameters()):
            print("vLLM's kernels pack no weights on this CPU (it has no AVX-512)")
            sys.exit(77)
        before = vllm_engine.tokens(llm)
        try:
            llm.init_weight_transfer_engine({"init_info": {"store": "http://127.0.0.1:1", "token": "x"}})
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            assert "WEIGHTBRIDGE_VLLM_PREPACK" in text, text
        else:
            raise AssertionError("weights in handles were taken for pulled")
        assert vllm_engine.tokens(llm) == before


if __name__ == "__main__":
    main()
