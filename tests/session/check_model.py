#!/usr/bin/env python3
"""Model-checks header.pml, and checks that each mutant of it is found wrong.

Usage: check_model.py header.pml. Exit code 77 (skipped) when spin or a C compiler is missing.
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# (name, definitions, errors expected)
CASES = [
    ("in-place", ["SLOTS=1"], False),
    ("snapshot", ["SLOTS=2"], False),
    ("accepts something, in-place", ["SLOTS=1", "REACHABLE"], True),
    ("accepts something, snapshot", ["SLOTS=2", "REACHABLE"], True),
    ("without fence A", ["SLOTS=1", "NO_FENCE_A"], True),
    ("without fence B", ["SLOTS=1", "NO_FENCE_B"], True),
    ("without the second header", ["SLOTS=1", "NO_SECOND"], True),
    ("second header not after the data", ["SLOTS=1", "SECOND_EARLY"], True),
    ("data not after the first header", ["SLOTS=1", "FIRST_LATE"], True),
    ("snapshot without fence A", ["SLOTS=2", "NO_FENCE_A"], True),
    ("snapshot without the second header", ["SLOTS=2", "NO_SECOND"], True),
]


def explore(model: Path, definitions: list[str]) -> str:
    """The report of an exhaustive search with these definitions."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["-D" + one for one in definitions]
        subprocess.run(["spin", *flags, "-a", str(model)], cwd=folder, check=True,
                       stdout=subprocess.PIPE, timeout=60)
        subprocess.run(["cc", "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], cwd=folder,
                       check=True, timeout=120)
        return subprocess.run(["./pan", "-m200000"], cwd=folder, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=600).stdout


def main() -> int:
    for tool in ("spin", "cc"):
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed")
            return 77
    failed = 0
    for name, definitions, wrong in CASES:
        report = explore(Path(sys.argv[1]).resolve(), definitions)
        complete = "max search depth too small" not in report and "Search not completed" not in report
        has_errors = "errors: 0" not in report
        good = has_errors == wrong and (wrong or complete)
        failed += not good
        states = next((line.strip() for line in report.splitlines() if "states, stored" in line), "?")
        print(f"{'ok  ' if good else 'FAIL'} {name}: {'error found' if has_errors else 'no error'}"
              f" ({states})")
        if not good:
            print(report)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
