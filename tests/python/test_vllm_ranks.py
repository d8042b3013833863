"""The parts of the vLLM engine that need no vLLM: what ranks tell each other about what they hold
(over gloo), and whose token goes where."""

import sys
import unittest
from types import SimpleNamespace
from unittest import mock

import torch.distributed as dist

import ranks
import weightbridge as wb
from weightbridge._probe import Homes
from weightbridge.vllm import _layout
from weightbridge.vllm._credentials import credentials


class Group:
    """As vLLM's GroupCoordinator has it."""

    def __init__(self, members):
        self.ranks = members
        self.world_size = len(members)
        self.cpu_group = dist.new_group(members, backend="gloo", use_local_synchronization=True)


def grid(rank):
    """Four ranks, 2 x 2: rows are tensor parallel, columns pipeline parallel."""
    row, column = divmod(rank, 2)
    return [Group([2 * row, 2 * row + 1]), Group([column, column + 2])]


def homes(held):
    """Of tensors with 8 elements each: how many of them this rank holds."""
    return {name: Homes(name, 8, 8 - here, here, 0, 0) for name, here in held.items()}


def held_of(made):
    return {h.name: h.elements - h.no_home for h in made.values()}


def check_union(rank, world):
    groups = grid(rank)
    # A tensor cut in two over rows, on one stage only; one on a single rank (an expert); one copied.
    mine = {"cut": 4 if rank < 2 else 0, "expert": 8 if rank == 3 else 0, "norm": 8,
            "lost": 0, "half": 4 if rank == 0 else 0}
    held = _layout._held_by_all(groups, mine, 20)
    assert held == {"cut": 8, "expert": 8, "norm": 32, "lost": 0, "half": 4}, held
    made = homes(mine)
    try:
        _layout._require_held(made, held, ["half"])
        raise AssertionError("a tensor that nobody holds was not noticed")
    except wb.Unsupported as error:
        assert error.tensor == "lost" and "8 of 8" in error.sentence, error.sentence
    _layout._require_held(made, held, ["lo*", "half"])


def check_failure(rank, world):
    groups = grid(rank)
    try:
        held = _layout._held_by_all(groups, None if rank == 2 else {"w": 8}, 20)
        assert rank == 2 and held == {}, (rank, held)
    except wb.Unavailable as error:
        assert rank != 2 and error.peer.startswith("rank "), (rank, error)


def check_late(rank, world):
    groups = [Group([0, 1])]
    if rank == 0:
        try:
            _layout._held_by_all(groups, {"w": 8}, 0.5)
            raise AssertionError("it did not wait for the other, or not with an end")
        except wb.Deadline as error:
            assert "0.5 s" in error.sentence, error.sentence
    dist.barrier()


class Ranks(unittest.TestCase):
    def test_what_no_rank_holds_is_noticed(self):
        ranks.run(check_union, 4)

    def test_a_rank_that_fails_is_named_and_nobody_waits(self):
        ranks.run(check_failure, 4)

    def test_a_rank_that_does_not_come_is_a_deadline(self):
        ranks.run(check_late, 2)

    def test_experts_are_cut_over_data_parallel_ranks(self):
        """With one rank per replica, too; without expert parallelism each replica holds all."""
        sizes = {"get_tp_group": 1, "get_pp_group": 1, "get_dp_group": 2}
        fake = SimpleNamespace(**{name: lambda size=size: SimpleNamespace(world_size=size)
                                  for name, size in sizes.items()})
        with mock.patch.dict(sys.modules, {"vllm": SimpleNamespace(), "vllm.distributed": fake}):
            for experts, groups in ((True, 1), (False, 0)):
                config = SimpleNamespace(parallel_config=SimpleNamespace(
                    enable_expert_parallel=experts))
                self.assertEqual(len(_layout._groups(config)), groups)


class Credentials(unittest.TestCase):
    own = {"WEIGHTBRIDGE_STORE": "http://a:1", "WEIGHTBRIDGE_TOKEN_FILE": "/etc/token"}

    def test_the_engines_own(self):
        self.assertEqual(credentials("", "", self.own), ("http://a:1", "", "/etc/token"))
        self.assertEqual(credentials("http://a:1", "", self.own), ("http://a:1", "", "/etc/token"))

    def test_a_request_with_a_token_takes_nothing_of_the_engine(self):
        self.assertEqual(credentials("http://b:1", "t", self.own), ("http://b:1", "t", ""))
        self.assertEqual(credentials("", "t", self.own), ("http://a:1", "t", ""))
        self.assertEqual(credentials("http://b:1", "t", {}), ("http://b:1", "t", ""))

    def test_the_engines_token_goes_to_its_store_only(self):
        for store, environment in (
            ("http://b:1", self.own),
            ("http://b:1", {"WEIGHTBRIDGE_TOKEN_FILE": "/etc/token"}),
            ("http://b:1", {}),
            ("", {}),
            ("", {"WEIGHTBRIDGE_TOKEN_FILE": "/etc/token"}),
            ("", {"WEIGHTBRIDGE_STORE": "http://a:1"}),
        ):
            with self.subTest(store=store, environment=environment):
                with self.assertRaises(wb.InvalidArgument):
                    credentials(store, "", environment)


if __name__ == "__main__":
    unittest.main()
