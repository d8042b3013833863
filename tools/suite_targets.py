#!/usr/bin/env python3
"""The targets that the tests of one suite need: suite_targets.py BUILD SUITE prints them for ninja."""
import json
import pathlib
import subprocess
import sys


def introspect(build: pathlib.Path, what: str):
    return json.loads(subprocess.check_output(["meson", "introspect", str(build), what]))


def main() -> None:
    build, suite = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    outputs = {target["id"]: target["filename"] for target in introspect(build, "--targets")}
    wanted = set()
    for test in introspect(build, "--tests"):
        if not any(name.split(":")[-1] == suite for name in test["suite"]):
            continue
        for target in test["depends"]:
            wanted.update(outputs[target])
    for path in sorted(wanted):
        print(pathlib.Path(path).relative_to(build))


main()
