"""Runs the tests of the Python package; ends with one line of counts.

    run.py [MODULE...]: without words all of them
"""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def run(suite):
    """Whether a test failed. The last line on stdout has the counts."""
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result, stream=sys.stdout).run(suite)
    for test, reason in result.skipped:
        print(f"  skipped {test}: {reason}")
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return failed != 0


def main():
    sys.path.insert(0, str(HERE))
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("test_*.py"))
    return run(unittest.defaultTestLoader.loadTestsFromNames(names))


if __name__ == "__main__":
    sys.exit(main())
