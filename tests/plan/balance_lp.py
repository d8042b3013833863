#!/usr/bin/python3
"""Compares balance() with a linear program solved by HiGHS.

    balance_lp.py BALANCE_CASES FOLDER_OF_HIGHSPY [SEED [COUNT]]

The program is written from the contract in balance.h, not from the way in which balance() solves it: who sends,
who is entered and who passes on are variables, and the time of the slowest NIC is minimised. No division of whole
bytes can beat it, so balance() must be at its ceiling.
"""

import collections
import json
import math
import subprocess
import sys

OUT, IN = "out", "in"
EGRESS, INGRESS, RECEIVER_EGRESS, INSIDE = range(4)


class Program:
    """min T such that every sum of amounts is what it must be, and no NIC is busier than T * speed."""

    def __init__(self):
        self.variables = 0
        self.sums = []  # (variables, bytes)
        self.loads = collections.defaultdict(list)  # (nic, direction) -> [(variable, weight)]

    def divide(self, amount, choices, weight=1):
        """`amount` bytes over choices; each choice is a load of (nic, direction), or None for none."""
        mine = []
        for choice in choices:
            mine.append(self.variables)
            if choice is not None:
                self.loads[choice].append((self.variables, weight))
            self.variables += 1
        self.sums.append((mine, amount))

    def shortest(self, highspy, np, speeds, full_duplex, only=None):
        """The least T; `only` one direction of the NICs counts, if given."""
        # Near 1, where the solver is exact.
        unit, fastest = max(amount for _, amount in self.sums) / 1000, max(speeds)
        limits = collections.defaultdict(list)
        for (nic, direction), terms in self.loads.items():
            if only is None or direction == only:
                limits[(nic, direction) if full_duplex[nic] else nic].extend(terms)
        time = self.variables
        start, index, value, low, high = [0], [], [], [], []
        for variables, amount in self.sums:
            index += variables
            value += [1.0] * len(variables)
            start.append(len(index))
            low.append(amount / unit)
            high.append(amount / unit)
        for where, terms in limits.items():
            nic = where[0] if isinstance(where, tuple) else where
            index += [variable for variable, _ in terms] + [time]
            value += [float(weight) for _, weight in terms] + [-speeds[nic] / fastest]
            start.append(len(index))
            low.append(-highspy.kHighsInf)
            high.append(0.0)
        lp = highspy.HighsLp()
        lp.num_col_ = self.variables + 1
        lp.num_row_ = len(low)
        lp.col_cost_ = np.array([0.0] * self.variables + [1.0])
        lp.col_lower_ = np.zeros(lp.num_col_)
        lp.col_upper_ = np.full(lp.num_col_, highspy.kHighsInf)
        lp.row_lower_ = np.array(low)
        lp.row_upper_ = np.array(high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(start)
        lp.a_matrix_.index_ = np.array(index)
        lp.a_matrix_.value_ = np.array(value)
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("primal_feasibility_tolerance", 1e-9)
        solver.setOptionValue("dual_feasibility_tolerance", 1e-9)
        solver.passModel(lp)
        solver.run()
        assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal, solver.getModelStatus()
        return solver.getInfo().objective_function_value * unit / fastest


class World:
    def __init__(self, case):
        self.case = case
        self.speeds, self.full, first = [], [], []
        for host in case["hosts"]:
            first.append(len(self.speeds))
            for speed, full in host["nics"]:
                self.speeds.append(speed)
                self.full.append(full)
        self.source_nic = [first[h] + n for h, n in case["sources"]]
        self.receiver_nic = [first[h] + n for h, n in case["receivers"]]
        # Hosts of one domain are one.
        place = [("domain", h["domain"]) if h["domain"] else ("host", i) for i, h in enumerate(case["hosts"])]
        self.source_place = [place[h] for h, _ in case["sources"]]
        self.receiver_place = [place[h] for h, _ in case["receivers"]]

    def program(self, policy):
        program = Program()
        for size, holders, needers in self.case["classes"]:
            held_at = {self.source_place[s] for s in holders}
            members = collections.defaultdict(list)
            for r in needers:
                if self.receiver_place[r] not in held_at:  # the others read on their own host
                    members[self.receiver_place[r]].append(r)
            send = [(self.source_nic[s], OUT) for s in holders]
            if policy == "fanout" and members:
                program.divide(size, send)
                everyone = [(self.receiver_nic[r], OUT) for there in members.values() for r in there]
                if len(members) > 1:
                    program.divide(size, everyone, weight=len(members) - 1)
            for there in members.values():
                enter = [(self.receiver_nic[r], IN) for r in there]
                if policy == "direct":
                    program.divide(size * len(there), send)
                    for one in enter:
                        program.divide(size, [one])
                else:
                    program.divide(size, enter)
                if policy == "host":
                    program.divide(size, send)
        return program


def check(highspy, np, case):
    world = World(case)
    equal = len(set(world.speeds)) == 1
    plain = all(world.full)
    most_rounding = len(world.speeds)
    for policy, loads in case["loads"].items():
        program = world.program(policy)
        if not program.loads:
            assert all(load["kind"] == INSIDE for load in loads), "a NIC is used for nothing"
            continue
        groups = [(None, (EGRESS, INGRESS, RECEIVER_EGRESS))]
        if plain:  # the two directions have nothing to do with each other
            groups += [(OUT, (EGRESS, RECEIVER_EGRESS)), (IN, (INGRESS,))]
        for only, kinds in groups:
            least = program.shortest(highspy, np, world.speeds, world.full, only)
            mine = [load for load in loads if load["kind"] in kinds]
            slowest = max(mine, key=lambda load: load["largest"] / world.speeds[load["place"]])
            speed = world.speeds[slowest["place"]]
            # The solver's own precision; well below a byte for all but the real cases.
            slop = max(1e-3, 1e-9 * least * speed)
            low, high = math.ceil(least * speed - slop), math.ceil(least * speed + slop)
            # Forwards are whole bytes to each of several hosts: each class may round by that many.
            allowed = sum(len(c[2]) for c in case["classes"]) if policy == "fanout" else 0
            if not equal:
                allowed += most_rounding * max(world.speeds) // min(world.speeds)
            what = f"{policy} {only or 'all'}: largest {slowest['largest']} bound {slowest['bound']}, linear {least * speed}"
            assert low <= slowest["largest"] <= high + allowed, what
            # Bounds are rounded up to whole bytes, and by kind: one of these is the limit, but for what
            # whole bytes hide where speeds differ.
            hidden = 0 if equal else 1
            bounds = [(load["bound"], world.speeds[load["place"]]) for load in mine]
            assert all(bytes_ - 1 < (least + slop / speed) * v for bytes_, v in bounds), what
            if plain:
                assert any(bytes_ + hidden > (least - slop / speed) * v for bytes_, v in bounds), what


def main():
    cases, folder = sys.argv[1:3]
    seed, count = (sys.argv[3:] + ["1", "300"][len(sys.argv) - 3 :])[:2]
    sys.path.insert(0, folder)
    try:
        import highspy
        import numpy as np
    except ImportError as error:
        print(f"skipped: {error}; tools/test fetches it")
        return 77
    lines = subprocess.run([cases, seed, count], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    failed = 0
    for line in lines:
        case = json.loads(line)
        try:
            check(highspy, np, case)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {case['name']}: {error}")
    print(f"{len(lines)} problems, {failed} failed")
    assert len(lines) > int(count)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
