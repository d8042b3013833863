"""Jobs by hand over verbs, in the lab's guest: processes that are killed and started again.

    verbs_job.py        ends with one line of counts
"""

import pathlib
import signal
import subprocess
import sys
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "cli"), str(TESTS / "python")]

import harness  # noqa: E402
import run as runner  # noqa: E402
from harness import run  # noqa: E402
from test_job import publish_words, pull_words  # noqa: E402

VERBS = ["--transport", "verbs"]
TRAINER = "megatron:tp=2"


def queue_pairs():
    """How many the kernel holds for all of our processes."""
    listed = subprocess.run(["rdma", "resource", "show", "qp"], capture_output=True, text=True,
                            check=True).stdout
    return sum(" comm weightbridge" in line for line in listed.splitlines())


class Job(harness.Case):
    def setUp(self):
        self.url, self.token = self.start_store()

    def start_trainers(self, *words):
        trainers = [self.start(*publish_words(self.url, self.token, rank, TRAINER), *VERBS, *words)
                    for rank in range(2)]
        for trainer in trainers:
            trainer.wait_for_event("published")
        return trainers

    def pull(self, rank=0, *words):
        return run(*pull_words(self.url, self.token, rank, "vllm:tp=2"), *VERBS, *words)

    def assert_pulls(self, *words):
        for rank in range(2):
            result = self.pull(rank, *words)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("verbs", result.stdout)

    def test_receivers_that_are_killed_leave_nothing(self):
        """In the middle of their pulls, and started again under the same name."""
        trainers = self.start_trainers("--mode", "snapshot", "--versions", 100000, "--interval", 0.05)
        for round_ in range(5):
            receiver = self.start(*pull_words(self.url, self.token, 0, "vllm:tp=2"), *VERBS,
                                  "--at-least", 1, "--pulls", 100000)
            receiver.wait_for_event("pulled")
            self.assertGreater(queue_pairs(), 0)
            time.sleep(0.03 * round_)
            receiver.stop(signal.SIGKILL)
            self.assert_pulls("--at-least", 1)
        # The trainers find out by themselves who is gone.
        end = time.monotonic() + 80
        while queue_pairs() and time.monotonic() < end:
            time.sleep(0.5)
        self.assertEqual(queue_pairs(), 0)
        for trainer in trainers:
            self.assertEqual(trainer.stop(signal.SIGTERM), 0, trainer.errors)

    def test_trainers_that_are_killed_and_started_again(self):
        """Their successors have other keys, other memory and another generation."""
        for _ in range(3):
            trainers = self.start_trainers("--hold")
            self.assert_pulls()
            for trainer in trainers:
                trainer.stop(signal.SIGKILL)

    def test_a_trainer_that_is_killed_in_a_read(self):
        trainers = self.start_trainers("--hold")
        receiver = self.start(*pull_words(self.url, self.token, 0, "vllm:tp=1", timeout=5), *VERBS,
                              "--at-least", 1, "--overlap", 1, "--trainers", 2)
        receiver.wait_for_event("ready")
        time.sleep(1)
        trainers[1].stop(signal.SIGKILL)
        self.assertIn(receiver.end(), (4, 5), receiver.errors)
        self.assertEqual(receiver.events("pulled"), [])
        self.assertEqual(len(receiver.errors), 1, receiver.errors)

    def test_another_token(self):
        self.start_trainers("--hold")
        self.token = harness.token_file("another-token")
        self.assert_fails(self.pull(), 6)

    def test_no_such_device(self):
        self.start_trainers("--hold")
        self.assert_fails(self.pull(0, "--verbs", "devices=mlx5_7"), 12, "mlx5_7")


if __name__ == "__main__":
    sys.exit(runner.run(unittest.defaultTestLoader.loadTestsFromTestCase(Job)))
