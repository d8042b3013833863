"""Runs the commands of the documents, one shell for each document, as they stand."""

import os
import pathlib
import re
import subprocess
import unittest

import harness

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Documents(unittest.TestCase):
    def blocks(self, document, at_least):
        blocks = re.findall(r"^```sh\n(.*?)^```$", (DOCS / document).read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), at_least)
        return blocks

    def run_all(self, name, blocks, words, files, given=()):
        """Runs the blocks after replacing `words`; `files` must have been written."""
        text = "".join(blocks)
        with harness.socket_on_a_free_port() as port:  # the document's may be taken on this machine
            for word, value in words.items():
                self.assertIn(word, text)
                text = text.replace(word, value.format(port=port))
        script = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + text
        folder = harness.scratch(name)
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
        return log.read_text()

    def test_command_line(self):
        self.run_all("command-line", self.blocks("command-line.md", 3), {"7071": "{port}"},
                     ("result.json", "layout.json", "plan.json", "simulation.html", "rank1.safetensors"))

    def test_dry_run(self):
        self.run_all("dry-run", self.blocks("dry-run.md", 1), {}, ("plan.json", "plan.html"))

    def test_simulator(self):
        # Its cluster is the one that the page about the dry run describes.
        cluster = re.search(r"^```json\n(.*?)^```$", (DOCS / "dry-run.md").read_text(), re.M | re.S)
        self.run_all("simulator", self.blocks("simulator.md", 1), {}, ("simulation.html",),
                     [("cluster.json", cluster.group(1))])

    def test_getting_started(self):
        # What builds and installs is what the machine of this test came from.
        blocks = [block for block in self.blocks("getting-started.md", 4)
                  if "weightbridge " in block and "meson" not in block]
        blocks = [block for block in blocks if "pkg-config" not in block]
        self.assertEqual(len(blocks), 2)
        words = {"build/src/cli/weightbridge": "weightbridge", "MODEL_DIR": "$MODEL",
                 "STORE_HOST:2399": "127.0.0.1:{port}", "0.0.0.0:2399": "127.0.0.1:{port}",
                 "THIS_HOST": "127.0.0.1"}
        log = self.run_all("getting-started", blocks, words, ("token", "rank0.safetensors"))
        self.assertIn("PASS", log)


if __name__ == "__main__":
    unittest.main()
