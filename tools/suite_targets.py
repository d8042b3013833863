#!/usr/bin/env python3
"""The targets that some tests need: suite_targets.py BUILD NAME... prints them for ninja. A NAME is a test's or
a suite's."""
import json
import pathlib
import subprocess
import sys


def introspect(build: pathlib.Path, what: str):
    return json.loads(subprocess.check_output(["meson", "introspect", str(build), what]))


def main() -> None:
    build, names = pathlib.Path(sys.argv[1]).resolve(), set(sys.argv[2:])
    outputs = {target["id"]: target["filename"] for target in introspect(build, "--targets")}
    wanted = set()
    for test in introspect(build, "--tests"):
        if names.isdisjoint([test["name"], *(suite.split(":")[-1] for suite in test["suite"])]):
            continue
        for target in test["depends"]:
            wanted.update(outputs[target])
    for path in sorted(wanted):
        print(pathlib.Path(path).relative_to(build))


main()
