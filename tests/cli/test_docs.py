"""Runs the commands of the documents about the command, each document in one shell, as they stand."""

import os
import pathlib
import re
import subprocess
import unittest

import harness

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Document(unittest.TestCase):
    def run_blocks(self, name, least, files, given=()):
        text = (DOCS / name).read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
        self.assertGreaterEqual(len(blocks), least)
        # A port of the document may be taken on this machine.
        with harness.socket_on_a_free_port() as port:
            commands = "".join(blocks).replace("7071", str(port))
        script = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + commands
        folder = harness.scratch("docs")
        for file, content in given:
            (folder / file).write_text(content)
        environment = dict(os.environ, MODEL=str(harness.model("tiny-qwen3")))
        environment["PATH"] = (str(pathlib.Path(harness.WEIGHTBRIDGE).parent) + os.pathsep +
                               environment["PATH"])
        log = folder / "log"
        with open(log, "w", encoding="utf-8") as output:
            result = subprocess.run(["bash", "-c", script], cwd=folder, env=environment,
                                    stdout=output, stderr=subprocess.STDOUT, check=False,
                                    timeout=harness.HANG)
        self.assertEqual(result.returncode, 0, log.read_text())
        for file in files:
            self.assertTrue((folder / file).exists(), file)

    def test_command_line(self):
        self.run_blocks("command-line.md", 3, ("result.json", "layout.json", "plan.json",
                                               "simulation.html", "rank1.safetensors"))

    def test_dry_run(self):
        self.run_blocks("dry-run.md", 1, ("plan.json", "plan.html"))

    def test_simulator(self):
        # Its cluster is the one that the page about the dry run describes.
        cluster = re.search(r"^```json\n(.*?)^```$", (DOCS / "dry-run.md").read_text(), re.M | re.S)
        self.run_blocks("simulator.md", 1, ("simulation.html",),
                        [("cluster.json", cluster.group(1))])


if __name__ == "__main__":
    unittest.main()
