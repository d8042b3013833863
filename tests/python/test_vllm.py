"""Live vLLM models: their layouts, learnt through vLLM's own loaders, against the rules; pulls into
them against fresh loads; what cannot be pulled into is refused. vLLM runs in processes of its own."""

import functools
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FULL = os.environ.get("WB_FULL") == "1"

# Pulls of two versions in each case; with WB_FULL=1 six. Five in a row are also in the tests below.
VERSIONS = 5 if FULL else 1
CASES = [f"{family}:tp={tp}:{VERSIONS}" for family in ("llama", "qwen2", "qwen3", "qwen3_moe", "deepseek_v3")
         for tp in (1, 2)]
CASES += [f"{family}:tp=2:ep:{VERSIONS}" for family in ("qwen3_moe", "deepseek_v3")]


def start(name, *words, timeout, **environment):
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, str(HERE / name), *map(str, words)], capture_output=True, text=True,
        timeout=timeout, check=False, env=dict(os.environ, PYTHONPATH=path, **environment))


@functools.cache
def cases():
    """case -> what vllm_cases.py says of it. One process for all: vLLM is imported once."""
    result = start("vllm_cases.py", *CASES, timeout=3600 if FULL else 1200)
    said = dict(line.split(" ", 1) for line in result.stdout.splitlines() if line.startswith(tuple(CASES)))
    return said, result.stderr[-3000:]


@unittest.skipUnless(importlib.util.find_spec("vllm"), "vLLM is not installed: tools/python-env vllm")
class Vllm(unittest.TestCase):
    def script(self, name, *words, timeout=600, **environment):
        result = start(name, *words, timeout=timeout, **environment)
        if result.returncode == 77:  # not on this machine: the last line says why
            self.skipTest(result.stdout.strip().splitlines()[-1])
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-6000:])

    def test_fsdp_trainer_to_tensor_parallel_vllm_in_process_and_over_http(self):
        self.script("fsdp_to_vllm.py", 2, 5)

    def test_packed_weights_are_refused(self):
        self.script("vllm_packed.py", WEIGHTBRIDGE_VLLM_PREPACK="1")


def _test(case):
    def test(self):
        said, log = cases()
        self.assertRegex(said.get(case, "no word of it"), "^ok ", log)

    return test


for _case in CASES:
    setattr(Vllm, "test_" + _case.replace(":", "_").replace("=", ""), _test(_case))


if __name__ == "__main__":
    unittest.main()
