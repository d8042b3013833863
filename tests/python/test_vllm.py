"""A live vLLM model: its layout, learnt through its own loaders, against the rules; pulls into it
against fresh loads; what cannot be pulled into is refused. vLLM runs in processes of its own."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent


@unittest.skipUnless(importlib.util.find_spec("vllm"), "vLLM is installed by tools/test --full only")
class Vllm(unittest.TestCase):
    def script(self, name, *words, **environment):
        path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
        result = subprocess.run(
            [sys.executable, str(HERE / name), *map(str, words)], capture_output=True, text=True,
            timeout=600, check=False, env=dict(os.environ, PYTHONPATH=path, **environment))
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-6000:])

    def test_tokens_of_five_versions_are_those_of_a_fresh_load(self):
        self.script("vllm_end_to_end.py", "qwen3", 1, 5)

    def test_other_families(self):
        for family in ("llama", "qwen2", "qwen3_moe", "deepseek_v3"):
            with self.subTest(family=family):
                self.script("vllm_end_to_end.py", family, 1, 2)

    def test_tensor_parallel(self):
        for family in ("qwen3", "qwen3_moe"):
            with self.subTest(family=family):
                self.script("vllm_end_to_end.py", family, 2, 2)

    def test_fsdp_trainer_to_tensor_parallel_vllm(self):
        self.script("fsdp_to_vllm.py", 2, 5)

    def test_layouts_equal_the_rules(self):
        for family in ("llama", "qwen2", "qwen3", "qwen3_moe", "deepseek_v3"):
            for tp in (1, 2):
                with self.subTest(family=family, tp=tp):
                    self.script("vllm_rules.py", family, tp)

    def test_packed_weights_are_refused(self):
        self.script("vllm_packed.py", WEIGHTBRIDGE_VLLM_PREPACK="1")


if __name__ == "__main__":
    unittest.main()
