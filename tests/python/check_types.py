"""The installed package is typed: mypy --strict is clean on it and on a program that uses it."""

import pathlib
import subprocess
import sys
import tempfile

PROGRAM = """
import weightbridge as wb
table: wb.Table = wb.checkpoint("/model")
layout: wb.Layout = wb.Layout.create(table)
job = wb.Job.open("embed:127.0.0.1:0", token="x", timeout=1.0)
report: wb.PullReport = wb.Receiver.create(job, layout, name="r", timeout=1.0).pull(timeout=1.0)
number: int = report.version.number
"""
WRONG = PROGRAM + "text: str = report.version.number\n"


def mypy(*words):
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", *words], capture_output=True,
                          text=True, check=False)


def main():
    import weightbridge
    package = pathlib.Path(weightbridge.__file__).parent
    result = mypy("--ignore-missing-imports", "--disable-error-code=import-untyped",
                  "--allow-subclassing-any", "--allow-untyped-calls", "--no-warn-return-any",
                  "--no-warn-unused-ignores", "--follow-imports=silent", "-p", "weightbridge")
    print(result.stdout, result.stderr)
    bad = result.returncode
    with tempfile.TemporaryDirectory() as folder:
        for text, expected in ((PROGRAM, 0), (WRONG, 1)):
            path = pathlib.Path(folder) / "program.py"
            path.write_text(text)
            result = mypy(str(path))
            print(result.stdout, result.stderr)
            bad |= result.returncode != expected
    assert (package / "py.typed").exists()
    return bad


if __name__ == "__main__":
    sys.exit(main())
