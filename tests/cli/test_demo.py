"""The demo: its verdict, its report, and its end by force."""

import json
import os
import signal
import time
import unittest

import harness
from harness import model, run


def demo_words(*more, trainer="megatron:tp=2", rollout="vllm:tp=4", name="tiny-qwen3", timeout=30):
    return ["demo", "--model", model(name), "--trainer", trainer, "--rollout", rollout,
            "--timeout", timeout, *more]


class Verdict(harness.Case):
    def results(self, *more, **sides):
        file = harness.scratch("demo") / "result.json"
        result = run(*demo_words("--json", file, *more, **sides))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("PASS", result.stdout)
        return json.loads(file.read_text())

    def test_in_place_tears_one_read_of_each_receiver(self):
        report = self.results("--versions", 3)
        self.assertEqual(report["verdict"], "pass")
        self.assertEqual(report["wrong_bytes"], 0)
        self.assertEqual(report["verified_bytes"], report["needed_bytes"])
        self.assertGreater(report["padding_bytes"], 0)
        pulls = report["pulls"]
        self.assertEqual(len(pulls), 3 * 4)
        for receiver in range(4):
            mine = [p for p in pulls if p["rank"] == receiver]
            self.assertEqual([p["version"] for p in mine], [1, 3, 4])
            self.assertGreaterEqual(sum(p["torn"] for p in mine), 1)
            self.assertEqual(sum(p["skipped"] for p in mine), 1)
        self.assertEqual(len(report["publishes"]), 4 * 2)
        self.assertTrue(all(p["memcpy_ns"] > 0 and p["read_ns"] > 0 for p in pulls))

    def test_snapshots_lose_no_version(self):
        report = self.results("--versions", 4, "--mode", "snapshot")
        for receiver in range(4):
            self.assertEqual([p["version"] for p in report["pulls"] if p["rank"] == receiver],
                             [1, 2, 3, 4])

    def test_one_version(self):
        self.results("--versions", 1)
        self.results("--versions", 1, "--mode", "snapshot")

    def test_memory_of_the_caller(self):
        report = self.results("--versions", 2, "--memory", "caller", "--transport", "local")
        self.assertTrue(all("process_vm_readv" in way["how"] for way in report["ways"]))

    def test_receivers_of_every_framework(self):
        for rollout in ("megatron:tp=2", "fsdp:shards=3", "fsdp:shards=3,flat=1", "replicated:n=2"):
            with self.subTest(rollout):
                self.results("--versions", 2, trainer="fsdp:shards=2", rollout=rollout)

    def test_latent_attention_and_experts(self):
        self.results("--versions", 2, trainer="megatron:tp=2,dp=2,ep=2",
                     rollout="vllm:tp=2,dp=2,ep=4", name="tiny-deepseek-v3")

    def test_a_store_that_runs_already(self):
        url, token = self.start_store()
        self.results("--versions", 2, "--store", url, "--token-file", token)


    def test_the_text_has_medians_and_says_which_reads_were_torn(self):
        in_place = run(*demo_words("--versions", 2))
        self.assertRegex(in_place.stdout, r"torn reads detected: \d+, each discarded and retried;")
        snapshot = run(*demo_words("--versions", 2, "--mode", "snapshot"))
        self.assertIn("torn reads detected: 0; versions skipped by receivers: 0\n", snapshot.stdout)
        for result in (in_place, snapshot):
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout,
                             r"\n +median +of all rows +[\d.]+ +[\d.]+ +[\d.]+ [num]?s\n")

    def test_a_store_that_is_gone_is_said_once(self):
        with harness.socket_on_a_free_port() as port:
            url = f"http://127.0.0.1:{port}"
        result = run(*demo_words("--versions", 2, "--store", url, "--token-file",
                                 harness.token_file(), timeout=3))
        self.assert_fails(result, 15, "unavailable")
        self.assertTrue(result.stdout.endswith("\nFAIL\n"), result.stdout)
        self.assertNotIn("unavailable", result.stdout)

    def test_a_store_that_refuses_the_token_is_said_once(self):
        url, _ = self.start_store()
        result = run(*demo_words("--versions", 2, "--store", url, "--token-file",
                                 harness.token_file("another-token"), timeout=3))
        self.assert_fails(result, 15, "unauthenticated")

    def test_a_failure_is_said_also_when_the_report_cannot_be_written(self):
        with harness.socket_on_a_free_port() as port:
            url = f"http://127.0.0.1:{port}"
        result = run(*demo_words("--store", url, "--token-file", harness.token_file(), "--json",
                                 "/nowhere/at/all.json", timeout=3))
        self.assertEqual(result.returncode, 15, result.stderr)
        self.assertIn("/nowhere/at/all.json", result.stderr)
        self.assertIn("last words", result.stderr)


class Force(harness.Case):
    def start_demo(self, *more):
        demo = self.start(*demo_words("--versions", 5000, *more))
        demo.wait_for(lambda line: "version 1:" in line)
        ranks = harness.children_of(demo.child.pid)
        self.assertEqual(len(ranks), 6)
        return demo, ranks

    def assert_gone(self, ranks):
        end = time.monotonic() + 20
        while any(harness.alive(rank) for rank in ranks):
            self.assertLess(time.monotonic(), end, "ranks are left behind")
            time.sleep(0.05)

    def test_a_rank_that_dies_is_named(self):
        demo, ranks = self.start_demo()
        os.kill(ranks[1], signal.SIGKILL)
        self.assertEqual(demo.end(), 15, demo.errors)
        self.assertIn("trainer-1 ended by signal 9", demo.errors[-1])
        self.assertEqual(len(demo.errors), 1, demo.errors)
        self.assertIn("(hint: ", demo.errors[0])
        self.assertEqual(demo.lines[-1], "FAIL")
        self.assertFalse(any("ended by" in line for line in demo.lines), demo.lines)
        self.assert_gone(ranks)

    def test_a_receiver_that_dies_is_named(self):
        demo, ranks = self.start_demo()
        os.kill(ranks[4], signal.SIGKILL)
        self.assertEqual(demo.end(), 15, demo.errors)
        self.assertIn("rollout-2 ended by signal 9", demo.errors[-1])
        self.assert_gone(ranks)

    def test_ctrl_c(self):
        demo, ranks = self.start_demo()
        self.assertEqual(demo.stop(signal.SIGINT), 130, demo.errors)
        self.assert_gone(ranks)

    def test_a_demo_that_is_killed_leaves_no_rank(self):
        demo, ranks = self.start_demo()
        demo.stop(signal.SIGKILL)
        self.assert_gone(ranks)

    def test_a_rank_that_stands_still_ends_it_by_the_timeout(self):
        demo = self.start(*demo_words("--versions", 5000, timeout=3))
        demo.wait_for(lambda line: "version 1:" in line)
        ranks = harness.children_of(demo.child.pid)
        os.kill(ranks[0], signal.SIGSTOP)
        begin = time.monotonic()
        self.assertEqual(demo.end(), 15, demo.errors)
        self.assertLess(time.monotonic() - begin, 60)
        self.assert_gone(ranks)


if __name__ == "__main__":
    unittest.main()
