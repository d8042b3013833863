"""Other copies of our dependencies in the process do not get mixed up with ours.

The C consumer is linked with -rdynamic together with a definition, which aborts, of every function
that the library has inside from Boost, spdlog, fmt, FlatBuffers, nlohmann-json and its own
namespace, and of every function that UCX exports. Linked this way the executable comes first in the
dynamic linker's search, so one reference that is not bound inside the library ends the program."""

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

from abi import all_symbols, dynamic_symbols, needed
from build_consumer import run

parser = argparse.ArgumentParser()
parser.add_argument("--library", required=True)
parser.add_argument("--include", required=True)
parser.add_argument("--c", required=True)
parser.add_argument("--flags", default="")
parser.add_argument("--ucx", nargs="*", default=[], help="UCX's shared libraries")
arguments = parser.parse_args()

HIDDEN = re.compile(r"^_Z\w*?(5boost|6spdlog|3fmt|11flatbuffers|8nlohmann|2wb)")


def hidden_functions():
    return {name for kind, name in all_symbols(arguments.library)
            if kind in "tTwWu" and HIDDEN.match(name) and re.fullmatch(r"\w+", name)}


def ucx_functions():
    names = set()
    for library in arguments.ucx:
        for kind, symbol in dynamic_symbols(library):
            name = symbol.partition("@")[0]
            if kind in "TW" and re.match(r"uc[pstm]_", name):
                names.add(name)
    return names


def assembly(names):
    """Each name is a function of its own that names itself and aborts."""
    lines = [".text"]
    for i, name in enumerate(sorted(names)):
        lines += [f".globl {name}", f".type {name},@function", f"{name}:",
                  "  subq $8, %rsp", f"  leaq name_{i}(%rip), %rdi", "  call wrong_copy@PLT"]
    lines.append(".section .rodata")
    lines += [f'name_{i}: .asciz "{name}"' for i, name in enumerate(sorted(names))]
    lines.append('.section .note.GNU-stack,"",@progbits')
    return "\n".join(lines) + "\n"


WRONG_COPY = """#include <stdio.h>
#include <stdlib.h>
void wrong_copy(const char* name) {
  fprintf(stderr, "the program's own %s was called\\n", name);
  abort();
}
"""

hidden, ucx = hidden_functions(), ucx_functions()
for word in ("boost", "spdlog", "fmt", "nlohmann", "2wb"):
    assert any(word in name for name in hidden), f"no {word} in the library: what is compared?"
assert "ucp_init_version" in ucx and "ucp_get_nbx" in ucx, "UCX's functions were not found"

with tempfile.TemporaryDirectory(prefix="wb-clash-") as temporary:
    work = pathlib.Path(temporary)
    (work / "copies.s").write_text(assembly(hidden | ucx))
    (work / "wrong_copy.c").write_text(WRONG_COPY)
    consumer = pathlib.Path(__file__).parent / "consumer" / "consumer.c"
    program = work / "program"
    run([arguments.c, "-rdynamic", "-Wl,--no-gc-sections", *shlex.split(arguments.flags),
         consumer, work / "wrong_copy.c", work / "copies.s", f"-I{arguments.include}",
         arguments.library, "-o", program])

    exported = {symbol.partition("@")[0] for _, symbol in dynamic_symbols(program)}
    missing = (hidden | ucx) - exported
    assert not missing, f"not exported by the program: {sorted(missing)[:3]}"
    folder = str(pathlib.Path(arguments.library).parent)
    environment = dict(os.environ, LD_LIBRARY_PATH=folder)
    run([program, "local"], env=environment, timeout=120)
    if "sanitize" not in arguments.flags:  # sanitizers refuse RTLD_DEEPBIND, which UCX needs here
        run([program, "ucx"], env=environment, timeout=120)
print(f"{len(hidden)} functions of hidden copies and {len(ucx)} of UCX: none was called")
