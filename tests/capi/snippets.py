"""The C++ and C of the documents compiles, and what is said to run runs.

A block is taken when its info string has a second word: ```cpp run (a whole program, built and
run), ```cpp compile (a whole translation unit), ```cpp body (statements: put into a function after
the headers and `namespace wb = weightbridge`); the same for ```c."""

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(cpp|c) (run|compile|body)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BODY = {
    "cpp": "#include <weightbridge/weightbridge.hpp>\n"
           "[[maybe_unused]] static void snippet() {\n"
           "namespace wb = weightbridge;\nusing namespace std::chrono_literals;\n%s}\n",
    "c": "#include <weightbridge/weightbridge.h>\nvoid snippet(void);\nvoid snippet(void) {\n%s}\n",
}

parser = argparse.ArgumentParser()
parser.add_argument("--library", required=True)
parser.add_argument("--include", required=True)
parser.add_argument("--c", required=True)
parser.add_argument("--cpp", required=True)
parser.add_argument("--flags", default="")
parser.add_argument("documents", nargs="+", help="files, or folders of them")
arguments = parser.parse_args()

folder = pathlib.Path(arguments.library).resolve().parent
failed, done = 0, {"run": 0, "compile": 0, "body": 0}


def documents(paths):
    for path in map(pathlib.Path, paths):
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path]


def check(name, command, **options):
    global failed
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, **options)
    if result.returncode != 0:
        print(f"{name}: exit code {result.returncode}\n{result.stderr}")
        failed += 1
    return result.returncode == 0


with tempfile.TemporaryDirectory(prefix="wb-snippets-") as temporary:
    for document in documents(arguments.documents):
        text = document.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text):
            language, kind, code = match.groups()
            name = f"{document.name}:{text.count(chr(10), 0, match.start()) + 1}"
            compiler = [arguments.cpp, "-std=c++20"] if language == "cpp" else [arguments.c, "-std=c99"]
            source = pathlib.Path(temporary) / f"snippet.{language}"
            source.write_text(BODY[language] % code if kind == "body" else code, encoding="utf-8")
            command = [*compiler, "-Wall", "-Wextra", "-Werror", *shlex.split(arguments.flags),
                       f"-I{arguments.include}", str(source)]
            done[kind] += 1
            if kind != "run":
                check(name, [*command, "-fsyntax-only"])
                continue
            program = pathlib.Path(temporary) / "snippet"
            if check(name, [*command, arguments.library, "-o", str(program)]):
                check(name, [str(program)], timeout=120, cwd=temporary,
                      env=dict(os.environ, LD_LIBRARY_PATH=str(folder)))

print(", ".join(f"{count} {kind}" for kind, count in done.items()), f"blocks; {failed} failed")
if done["run"] == 0:
    print("no block was run: the documents lost their example")
    failed += 1
sys.exit(failed != 0)
