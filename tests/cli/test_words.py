"""Help texts, words that are wrong, and what `layout` and `plan` say."""

import json
import subprocess
import unittest

import harness
from harness import model, run


class Help(harness.Case):
    def test_the_command_says_what_it_can_do(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for word in ("demo", "layout", "layout-diff", "plan", "simulate", "store", "publish", "pull",
                     "doctor", "Examples", "Exit codes"):
            self.assertIn(word, result.stdout)

    def test_each_subcommand_has_an_example(self):
        for command in ("demo", "layout", "layout-diff", "plan", "simulate", "store", "publish",
                        "pull", "doctor"):
            with self.subTest(command):
                result = run(command, "--help")
                self.assertEqual(result.returncode, 0)
                self.assertIn("Example", result.stdout)
                self.assertIn(f"weightbridge {command}", result.stdout)

    def test_each_side_has_an_example_of_its_own(self):
        for command, example, other in (("publish", "megatron:tp=2", "vllm"),
                                        ("pull", "vllm:tp=4", "megatron")):
            with self.subTest(command):
                text = run(command, "--help").stdout
                self.assertIn("SPEC of this side's layout, e.g. " + example,
                              " ".join(text.split()))
                self.assertNotIn(other, text)

    def test_version(self):
        result = run("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^weightbridge \d+\.\d+\.\d+\n$")


class Words(harness.Case):
    def test_usage(self):
        folder = model("tiny-qwen3")
        for words in ((), ("dance",), ("demo",), ("layout", "--model", folder),
                      ("demo", "--model", folder, "--trainer", "megatron:tp=2", "--rollout",
                       "vllm:tp=2", "--mode", "sideways"),
                      ("demo", "--model", folder, "--trainer", "megatron:tp=2", "--rollout",
                       "vllm:tp=2", "--transport", "pigeon"),
                      ("demo", "--model", folder, "--trainer", "megatron:tp=2", "--rollout",
                       "vllm:tp=2", "--versions", "0"),
                      ("demo", "--model", folder, "--trainer", "megatron:tp=2", "--rollout",
                       "vllm:tp=2", "--store", "embed:nowhere"),
                      ("plan", "--model", folder, "--trainer", "megatron:tp=2", "--rollout",
                       "vllm:tp=2", "--receiver", "2"),
                      ("plan", "--model", folder, "--trainer", "megatron:tp=2", "--rollout",
                       "vllm:tp=2", "--tensor", "model.norm.weight")):
            with self.subTest(words=words[:1] + words[-2:]):
                self.assert_fails(run(*words), 2)

    def test_timeouts_that_no_clock_can_hold(self):
        for seconds in ("nan", "inf", "-1", "0", "1e300", "soon"):
            with self.subTest(seconds):
                self.assert_fails(run("demo", "--model", model("tiny-qwen3"), "--trainer",
                                      "megatron:tp=2", "--rollout", "vllm:tp=2", "--timeout",
                                      seconds), 2, seconds)

    def test_a_full_disk_under_stdout_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for words in (("layout", "--model", model("tiny-qwen3"), "--side", "vllm:tp=2",
                           "--rank", 0),
                          ("layout", "--model", model("tiny-qwen3"), "--side", "vllm:tp=2",
                           "--rank", 0, "--json"),
                          ("plan", "--model", model("tiny-qwen3"), "--trainer", "megatron:tp=2",
                           "--rollout", "vllm:tp=2")):
                with self.subTest(words=words):
                    result = subprocess.run(
                        [harness.WEIGHTBRIDGE, *map(str, words)], stdout=full,
                        stderr=subprocess.PIPE, text=True, timeout=60, check=False)
                    self.assertEqual(result.returncode, 14, result.stderr)
                    self.assertIn("stdout", result.stderr)

    def test_reports_that_cannot_be_written_say_why(self):
        folder = harness.scratch("reports")
        (folder / "folder").mkdir()
        plan = ("plan", "--model", model("tiny-qwen3"), "--trainer", "megatron:tp=2", "--rollout",
                "vllm:tp=2")
        for option in ("--json", "--html"):
            with self.subTest(option):
                self.assert_fails(run(*plan, option, folder / "nowhere" / "file"), 10,
                                  "No such file")
                self.assert_fails(run(*plan, option, folder / "folder"), 2, "a folder")
                self.assert_fails(run(*plan, option, "/dev/full"), 2, "a device")
                (folder / "file").write_text("old")
                self.assertEqual(run(*plan, option, folder / "file").returncode, 0)
                self.assertNotEqual((folder / "file").read_text(), "old")
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["file", "folder"])

    def test_spec(self):
        for spec, word in (("vllm:tp=two", "two"), ("vllm:xp=2", "xp"), ("sglang:tp=2", "sglang"),
                           ("vllm", ""), ("vllm:tp=0", "0"), ("megatron:tp=2,tp=2", "tp")):
            if spec == "vllm":  # every key has a default
                continue
            with self.subTest(spec):
                self.assert_fails(run("layout", "--model", model("tiny-qwen3"), "--side", spec,
                                      "--rank", 0), 2, word)

    def test_rank_outside_the_world(self):
        self.assert_fails(run("layout", "--model", model("tiny-qwen3"), "--side", "vllm:tp=2",
                              "--rank", 2), 2, "2 ranks")

    def test_what_the_framework_refuses(self):
        # 8 KV heads over 3 ranks; tiny-llama has 8 query heads, so give it 24.
        folder = harness.copy_model("tiny-llama", "heads")
        refused = run("demo", "--model", folder, "--trainer", "megatron:tp=2", "--rollout",
                      "vllm:tp=3")
        self.assert_fails(refused, 2, "divisible")
        self.assert_fails(run("layout", "--model", model("tiny-qwen3"), "--side", "vllm:tp=3",
                              "--rank", 0), 2, "vLLM")
        self.assert_fails(run("layout", "--model", model("tiny-qwen3"), "--side",
                              "vllm:tp=2,dp=2,ep=4", "--rank", 0), 2, "expert")


class Layout(harness.Case):
    def test_coordinates(self):
        result = run("layout", "--model", model("tiny-qwen3"), "--side", "vllm:tp=4", "--rank", 3,
                     "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        buffers = {b["name"]: b for b in json.loads(result.stdout)["buffers"]}
        # 8 query heads of 16 rows over 4 ranks; 2 KV heads, of which rank 3 has the second.
        qkv = buffers["model.layers.0.self_attn.qkv_proj.weight"]
        self.assertEqual(qkv["shape"], [64, 64])
        rows = {p["tensor"].split(".")[-2]: (p["box"][0]["start"], p["box"][0]["count"])
                for p in qkv["pieces"]}
        self.assertEqual(rows, {"q_proj": (96, 32), "k_proj": (16, 16), "v_proj": (16, 16)})
        embedding = buffers["model.embed_tokens.weight"]
        self.assertEqual(embedding["pieces"][0]["box"][0], {"start": 768, "count": 232, "step": 1})
        self.assertEqual(embedding["extras"][0]["kind"], "zero fill")
        self.assertEqual(embedding["extras"][0]["bytes"], 24 * 64 * 2)

    def test_text(self):
        result = run("layout", "--model", model("tiny-qwen3"), "--side", "fsdp:shards=3", "--rank",
                     1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("model.norm.weight[22:44]", result.stdout)


class Plan(harness.Case):
    def test_bytes_and_proof(self):
        result = run("plan", "--model", model("tiny-qwen3-moe"), "--trainer",
                     "megatron:tp=2,dp=2,ep=2", "--rollout", "vllm:tp=1,dp=2,ep=2", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        receivers = json.loads(result.stdout)["receivers"]
        self.assertEqual([r["receiver"] for r in receivers], ["rollout-0", "rollout-1"])
        for receiver in receivers:
            self.assertEqual(receiver["proof"], "ok")
            self.assertEqual(receiver["surplus"], 0)
            self.assertEqual(receiver["bytes"], receiver["needed"])
            self.assertEqual(sum(edge["bytes"] for edge in receiver["edges"]), receiver["needed"])

    def test_one_receiver_as_text(self):
        result = run("plan", "--model", model("tiny-qwen3"), "--trainer", "fsdp:shards=3",
                     "--rollout", "vllm:tp=4", "--receiver", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("rollout-1", result.stdout)
        self.assertNotRegex(result.stdout, r"(?m)^rollout-0")
        self.assertIn("proof: ok", result.stdout)

    def test_what_cannot_be_planned(self):
        small = ("plan", "--model", "qwen3-0.6b", "--rollout", "vllm:tp=2")
        self.assert_fails(run(*small, "--trainer", "fsdp:shards=65536"), 2, "16384", "65536")
        self.assert_fails(run(*small, "--trainer", "fsdp:shards=2", "--policy", "best"), 2, "fanout")
        self.assert_fails(run(*small, "--trainer", "fsdp:shards=2", "--costs", "pigeon"), 2, "verbs")
        self.assert_fails(run(*small, "--trainer", "fsdp:shards=2", "--receiver", 0, "--html", "x"),
                          2, "--receiver")
        self.assert_fails(run("plan", "--model", "qwen4", "--trainer", "fsdp:shards=2", "--rollout",
                              "vllm:tp=2"), 10, "kimi-k2")

    def test_bad_files_name_what_is_wrong(self):
        folder = harness.scratch("files")
        words = ("--trainer", "replicated:n=1", "--rollout", "replicated:n=1")
        (folder / "model.json").write_text('{"config":{"model_type":"llama"},"tensors":'
                                           '{"w":{"dtype":"F32","shape":[-1]}}}')
        self.assert_fails(run("plan", "--model", folder / "model.json", *words), 3, "'w'",
                          "model.json")
        nic = '{"speed":"0Gb/s"}'
        (folder / "cluster.json").write_text(
            '{"hosts":[{"name":"h","nics":[%s],"inside":"1GB/s"}],"trainer":[{"host":"h"}],'
            '"rollout":[{"host":"h"}]}' % nic)
        for command in ("plan", "simulate"):
            self.assert_fails(run(command, "--model", "qwen3-0.6b", *words, "--cluster",
                                  folder / "cluster.json"), 3, "hosts[0].nics[0].speed", "zero")


if __name__ == "__main__":
    unittest.main()
