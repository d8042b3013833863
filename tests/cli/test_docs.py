"""Runs the commands of docs/command-line.md, in one shell, as they stand."""

import os
import pathlib
import re
import subprocess
import unittest

import harness

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "command-line.md"


class Document(unittest.TestCase):
    def test_the_commands_run(self):
        blocks = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 3)
        # A port of the document may be taken on this machine.
        with harness.socket_on_a_free_port() as port:
            text = "".join(blocks).replace("7071", str(port))
        script = ("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + text)
        folder = harness.scratch("docs")
        environment = dict(os.environ, MODEL=str(harness.model("tiny-qwen3")))
        environment["PATH"] = (str(pathlib.Path(harness.WEIGHTBRIDGE).parent) + os.pathsep +
                               environment["PATH"])
        log = folder / "log"
        with open(log, "w", encoding="utf-8") as output:
            result = subprocess.run(["bash", "-c", script], cwd=folder, env=environment,
                                    stdout=output, stderr=subprocess.STDOUT, check=False,
                                    timeout=harness.HANG)
        self.assertEqual(result.returncode, 0, log.read_text())
        for file in ("result.json", "layout.json", "plan.json", "rank1.safetensors"):
            self.assertTrue((folder / file).exists(), file)


if __name__ == "__main__":
    unittest.main()
