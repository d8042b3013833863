"""What the tests of the ABI ask of a compiled library and of the header."""

import re
import subprocess


def declared(header):
    """Names of the functions that weightbridge.h declares."""
    with open(header, encoding="utf-8") as text:
        return set(re.findall(r"WB_API[^;{]*?\b(wb_\w+)\(", text.read()))


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def dynamic_symbols(library):
    """(type letter, name) of every symbol that `library` defines for others."""
    rows = (line.split() for line in output("nm", "-D", "--defined-only", library).splitlines())
    return [(row[-2], row[-1]) for row in rows]


def all_symbols(library):
    """(type letter, name) of every symbol of the unstripped `library`, hidden ones included."""
    rows = (line.split() for line in output("nm", "--defined-only", library).splitlines())
    return [(row[-2], row[-1]) for row in rows]


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library))
