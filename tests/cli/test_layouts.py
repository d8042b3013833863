"""Layout files and their comparison."""

import json
import pathlib
import tempfile
import unittest

import harness
from harness import model, run


class LayoutFiles(harness.Case):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="wb-layouts-"))

    def layout(self, name, side, rank=0, folder="tiny-qwen3"):
        path = self.folder / name
        result = run("layout", "--model", model(folder), "--side", side, "--rank", rank,
                     "--out", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        return path

    def test_equal_layouts(self):
        a, b = self.layout("a.json", "vllm:tp=2"), self.layout("b.json", "vllm:tp=2")
        self.assertEqual(json.loads(a.read_text())["weightbridge_layout"], 1)
        result = run("layout-diff", a, b)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "equal: the same elements at the same bytes\n")

    def test_other_rank_of_the_same_shapes(self):
        a, b = self.layout("a.json", "vllm:tp=2"), self.layout("b.json", "vllm:tp=2", 1)
        result = run("layout-diff", a, b)
        self.assertEqual(result.returncode, 9, result.stderr)
        self.assertIn("only A: model.layers.0.self_attn.q_proj.weight[0:", result.stdout)
        differences = json.loads(run("layout-diff", a, b, "--json").stdout)
        self.assertFalse(differences["equal"])
        self.assertEqual({d["kind"] for d in differences["differences"]}, {"only_a", "only_b"})

    def test_two_models(self):
        a = self.layout("a.json", "vllm:tp=1")
        b = self.layout("b.json", "replicated:n=1", 0, "tiny-bert")
        self.assert_fails(run("layout-diff", a, b), 9)

    def test_files_that_are_none(self):
        a = self.layout("a.json", "vllm:tp=1")
        self.assert_fails(run("layout-diff", a, self.folder / "nothing"), 10)
        text = a.read_text()
        for changed in ("", "{}", text[:-5], text.replace('"weightbridge_layout":1',
                                                          '"weightbridge_layout":2'),
                        text.replace("[0,", "[1,", 1)):
            bad = self.folder / "bad.json"
            bad.write_text(changed)
            self.assert_fails(run("layout-diff", a, bad), 3)

    def test_what_a_layout_replaces(self):
        target = self.folder / "link"
        target.symlink_to(self.folder / "elsewhere")
        self.assert_fails(run("layout", "--model", model("tiny-qwen3"), "--side", "vllm:tp=1",
                              "--rank", 0, "--out", target), 2)
        self.assertFalse((self.folder / "elsewhere").exists())


if __name__ == "__main__":
    unittest.main()
