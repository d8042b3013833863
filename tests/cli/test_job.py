"""Jobs started by hand, and what a rank says when the others or the store are not as they should be."""

import os
import pathlib
import pwd
import signal
import socket
import stat
import time
import unittest

import harness
from harness import model, run


def publish_words(url, token, rank=0, trainer="megatron:tp=1", timeout=20):
    return ["publish", "--model", model("tiny-qwen3"), "--trainer", trainer, "--rank", rank,
            "--store", url, "--token-file", token, "--timeout", timeout, "--json"]


def pull_words(url, token, rank=0, rollout="vllm:tp=1", folder=None, timeout=20):
    return ["pull", "--model", folder or model("tiny-qwen3"), "--rollout", rollout, "--rank", rank,
            "--store", url, "--token-file", token, "--timeout", timeout, "--json", "--verify"]


class Store(harness.Case):
    def test_makes_a_token_and_ends_on_a_signal(self):
        token = harness.scratch("store") / "token"
        store = self.start("store", "--token-file", token, "--json")
        store.wait_for_event("listening")
        self.assertEqual(stat.S_IMODE(token.stat().st_mode), 0o600)
        self.assertGreaterEqual(len(token.read_text().strip()), 32)
        self.assertEqual(store.stop(signal.SIGTERM), 0)

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            token = harness.token_file()
            self.assert_fails(run("store", "--listen", address, "--token-file", token), 11)
            self.assert_fails(run("demo", "--model", model("tiny-qwen3"), "--trainer",
                                  "megatron:tp=1", "--rollout", "vllm:tp=1", "--store",
                                  "embed:" + address), 11)

    def test_address_that_is_none(self):
        for listen in ("7070", "127.0.0.1:70707", "127.0.0.1:x"):
            with self.subTest(listen):
                self.assert_fails(run("store", "--listen", listen, "--token-file",
                                      harness.token_file()), 2)

    def test_wrong_token(self):
        url, _ = self.start_store()
        other = harness.token_file("another-token")
        self.assert_fails(run(*pull_words(url, other, timeout=5)), 6)
        self.assert_fails(run(*publish_words(url, other)), 6)

    def test_store_is_gone(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        begin = time.monotonic()
        self.assert_fails(run(*pull_words(url, harness.token_file(), timeout=3)), 5)
        self.assertLess(time.monotonic() - begin, 60)


class ByHand(harness.Case):
    def test_two_trainers_two_receivers_over_a_store(self):
        url, token = self.start_store()
        trainers = [self.start(*publish_words(url, token, rank, "megatron:tp=2"), "--hold")
                    for rank in range(2)]
        for trainer in trainers:
            trainer.wait_for_event("published")
        for rank in range(2):
            result = run(*pull_words(url, token, rank, "vllm:tp=2"))
            self.assertEqual(result.returncode, 0, result.stderr)
        for trainer in trainers:
            self.assertEqual(trainer.stop(signal.SIGTERM), 0, trainer.errors)

    def test_staging_snapshot_and_several_pulls(self):
        url, token = self.start_store()
        trainer = self.start(*publish_words(url, token), "--mode", "snapshot", "--versions", 3,
                             "--interval", 0.2, "--hold")
        trainer.wait_for_event("published")
        result = run(*pull_words(url, token), "--staging", "--at-least", 1, "--pulls", 3)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('"version":3', result.stdout)

    def test_an_embedded_store_serves_the_others(self):
        token = harness.token_file()
        trainer = self.start(*publish_words("embed:127.0.0.1:0", token), "--hold")
        url = trainer.wait_for_event("ready")["store"]
        trainer.wait_for_event("published")
        result = run(*pull_words(url, token))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_each_transport_and_memory_says_how(self):
        url, token = self.start_store()
        for memory, transport, mechanism in (("shared", "local", "map"),
                                             ("caller", "local", "process_vm_readv"),
                                             ("shared", "ucx", "ucx")):
            with self.subTest(f"{memory} {transport}"):
                job = f"{memory}-{transport}"
                trainer = self.start(*publish_words(url, token), "--job", job, "--memory", memory,
                                     "--transport", transport, "--hold")
                trainer.wait_for_event("published")
                result = run(*pull_words(url, token), "--job", job, "--transport", transport)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(mechanism, result.stdout)
                self.assertEqual(trainer.stop(signal.SIGTERM), 0, trainer.errors)


class Others(harness.Case):
    def setUp(self):
        self.url, self.token = self.start_store()

    def test_no_trainer_comes(self):
        self.assert_fails(run(*pull_words(self.url, self.token, timeout=2)), 4)

    def test_a_trainer_of_the_world_is_missing(self):
        self.assert_fails(run(*publish_words(self.url, self.token, 0, "megatron:tp=2", timeout=2)),
                          4)

    def test_a_version_that_is_never_published(self):
        trainer = self.start(*publish_words(self.url, self.token), "--hold")
        trainer.wait_for_event("published")
        self.assert_fails(run(*pull_words(self.url, self.token, timeout=2), "--exactly", 99), 4)
        self.assert_fails(run(*pull_words(self.url, self.token, timeout=2), "--at-least", 2), 4)

    def test_a_second_publisher_of_a_rank_opens_a_new_generation(self):
        words = publish_words(self.url, self.token) + ["--versions", 100000]
        first = self.start(*words, "--interval", 0.1)
        first.wait_for_event("published")
        second = self.start(*words, "--interval", 0.1)
        self.assertEqual(first.end(), 13, first.errors)
        self.assertEqual(len(first.errors), 1, first.errors)
        self.assertIn("(hint: ", first.errors[0])
        self.assertGreater(second.wait_for_event("published")["generation"],
                           first.events("published")[0]["generation"])
        self.assertEqual(second.stop(signal.SIGTERM), 0, second.errors)

    def test_another_tensor_table(self):
        trainer = self.start(*publish_words(self.url, self.token), "--hold")
        trainer.wait_for_event("published")
        self.assert_fails(run(*pull_words(self.url, self.token, folder=model("tiny-qwen2"))), 9)

    def test_the_publisher_dies_while_a_pull_waits(self):
        trainer = self.start(*publish_words(self.url, self.token), "--hold")
        trainer.wait_for_event("published")
        receiver = self.start(*pull_words(self.url, self.token, timeout=5), "--at-least", 2)
        receiver.wait_for_event("ready")
        trainer.stop(signal.SIGKILL)
        self.assertIn(receiver.end(), (4, 5), receiver.errors)
        self.assertEqual(len(receiver.errors), 1, receiver.errors)

    def test_the_publisher_dies_in_the_middle_of_a_read(self):
        for memory in ("shared", "caller"):
            with self.subTest(memory):
                job = "middle-" + memory
                trainer = self.start(*publish_words(self.url, self.token), "--hold", "--memory",
                                     memory, "--job", job)
                trainer.wait_for_event("published")
                # Stays inside the first read for its timeout: nobody will say "updating".
                words = pull_words(self.url, self.token, timeout=5)
                receiver = self.start(*words, "--job", job, "--at-least", 1, "--overlap", 1,
                                      "--trainers", 1)
                receiver.wait_for_event("ready")
                time.sleep(1)
                trainer.stop(signal.SIGKILL)
                self.assertIn(receiver.end(), (4, 5), receiver.errors)
                self.assertEqual(receiver.events("pulled"), [])

    def test_a_trainer_that_is_stopped_is_done_without(self):
        """It keeps its connections and its lease for a while, and answers nothing."""
        trainers = [self.start(*publish_words(self.url, self.token, rank, "megatron:tp=1,dp=2"),
                               "--hold") for rank in range(2)]
        for trainer in trainers:
            trainer.wait_for_event("published")
        trainers[0].child.send_signal(signal.SIGSTOP)
        result = run(*pull_words(self.url, self.token))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_all_trainers_are_stopped(self):
        trainer = self.start(*publish_words(self.url, self.token), "--hold")
        trainer.wait_for_event("published")
        trainer.child.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        result = run(*pull_words(self.url, self.token, timeout=3))
        self.assertIn(result.returncode, (4, 5), result.stderr)
        self.assert_fails(result, result.returncode, "trainer-0")
        self.assertLess(time.monotonic() - begin, 60)

    def test_memory_that_the_kernel_keeps_to_its_owner(self):
        options = {}
        if os.geteuid() == 0:
            # root may read any process: become somebody else.
            nobody = pwd.getpwnam("nobody")
            options = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            self.token = harness.token_file()
            os.chmod(self.token.parent, 0o755)
            os.chown(self.token, nobody.pw_uid, nobody.pw_gid)
            binary = pathlib.Path(harness.WEIGHTBRIDGE)
            if not all(os.stat(folder).st_mode & 0o001 for folder in binary.parents):
                self.skipTest("the user nobody cannot reach the build folder")
        store = self.start("store", "--token-file", self.token, "--json", **options)
        url = store.wait_for_event("listening")["endpoint"]
        folder = model("tiny-qwen3")
        os.chmod(folder, 0o755)
        trainer = self.start(*publish_words(url, self.token), "--memory", "caller",
                             "--not-dumpable", "--hold", **options)
        trainer.wait_for_event("published")
        result = run(*pull_words(url, self.token, timeout=5), "--transport", "local", **options)
        self.assert_fails(result, 12, "process_vm_readv is forbidden", "PR_SET_DUMPABLE")


if __name__ == "__main__":
    unittest.main()
