"""The Python of the documents runs: every ```python run block, as a program of its own."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

DOCUMENTS = pathlib.Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python run\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Documents(unittest.TestCase):
    def test_blocks(self):
        for name, least in (("python.md", 4), ("integrate.md", 1)):
            blocks = BLOCK.findall((DOCUMENTS / name).read_text(encoding="utf-8"))
            self.assertGreaterEqual(len(blocks), least, name)
            for number, block in enumerate(blocks):
                with self.subTest(document=name, block=number):
                    result = subprocess.run([sys.executable, "-c", block], capture_output=True,
                                            text=True, timeout=120, check=False, env=os.environ)
                    self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
