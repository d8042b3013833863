#!/usr/bin/env python3
"""Writes a C++ source that holds rule files as strings: embed.py OUT FILE..."""
import pathlib
import sys


def literal(text):
    """Each line a string of its own: compilers limit the length of one literal."""
    lines = text.splitlines(keepends=True)
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for line in lines)
    return "\n".join(f'    "{line}"' for line in escaped)


def main():
    out, *files = map(pathlib.Path, sys.argv[1:])
    parts = ['#include "layout/rules_embedded.h"\n\nnamespace wb {\n\n']
    parts.append("std::string_view embedded_rules(std::string_view file) {\n")
    for file in files:
        parts.append(f'  if (file == "{file.stem}") {{\n    return\n')
        parts.append(literal(file.read_text(encoding="ascii")) + ";\n  }\n")
    parts.append("  return {};\n}\n\n}  // namespace wb\n")
    out.write_text("".join(parts), encoding="ascii")


if __name__ == "__main__":
    main()
