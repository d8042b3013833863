#!/usr/bin/env python3
"""Runs the demo on many pairs of layouts and counts.

    matrix.py --weightbridge PATH --model DIR --pairs TRAINER ROLLOUT [TRAINER ROLLOUT ...]
              [--modes inplace,snapshot] [--transports local,ucx] [--versions 5]

Prints one line per cell and, last, "N passed, N failed, N skipped". Exit code 1 if a cell failed.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time


def run_cell(arguments, trainer, rollout, mode, transport):
    """(passed, line)."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wb-matrix-") as folder:
        file = pathlib.Path(folder) / "result.json"
        words = [arguments.weightbridge, "demo", "--model", arguments.model, "--trainer", trainer,
                 "--rollout", rollout, "--mode", mode, "--transport", transport, "--versions",
                 str(arguments.versions), "--timeout", str(arguments.timeout), "--json", str(file)]
        try:
            # Each wait inside has its own deadline; this one is for a demo that lost its way.
            result = subprocess.run(words, capture_output=True, text=True, check=False,
                                    timeout=20 * arguments.timeout)
        except subprocess.TimeoutExpired:
            return False, "did not end"
        report = json.loads(file.read_text()) if file.exists() else {}
    seconds = time.monotonic() - begin
    if result.returncode != 0 or report.get("verdict") != "pass":
        return False, (result.stderr.strip() or "no report").splitlines()[-1]
    receivers = len({pull["rank"] for pull in report["pulls"]})
    if len(report["pulls"]) < arguments.versions * receivers:
        return False, f"only {len(report['pulls'])} pulls by {receivers} receivers"
    if report["verified_bytes"] != report["needed_bytes"] or report["wrong_bytes"] != 0:
        return False, "not every byte was verified"
    if any(not way["how"].startswith(transport) for way in report["ways"]):
        return False, f"bytes came another way: {[way['how'] for way in report['ways']]}"
    ways = {way["how"] for way in report["ways"]}
    return True, (f"{report['verified_bytes']} bytes verified, {report['torn']} torn reads "
                  f"detected, {', '.join(sorted(ways))}, {seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weightbridge", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", required=True, nargs="+", metavar="SPEC")
    parser.add_argument("--modes", default="inplace,snapshot")
    parser.add_argument("--transports", default="local,ucx")
    parser.add_argument("--versions", type=int, default=5)
    parser.add_argument("--timeout", type=int, default=60, help="seconds for each single wait")
    arguments = parser.parse_args()
    if len(arguments.pairs) % 2 != 0:
        parser.error("--pairs takes a trainer and a rollout each")
    passed = failed = 0
    for trainer, rollout in zip(arguments.pairs[::2], arguments.pairs[1::2]):
        for mode in arguments.modes.split(","):
            for transport in arguments.transports.split(","):
                good, line = run_cell(arguments, trainer, rollout, mode, transport)
                passed, failed = passed + good, failed + (not good)
                print(f"{'ok  ' if good else 'FAIL'} {trainer} -> {rollout} {mode} {transport}: "
                      f"{line}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
