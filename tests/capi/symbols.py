"""The library exports the functions of weightbridge.h and nothing else, and needs no library that
is to be opened at run time."""

import re
import sys

from abi import declared, dynamic_symbols, needed

library, header = sys.argv[1:]
faults = []

functions = set()
for kind, symbol in dynamic_symbols(library):
    name, _, version = symbol.partition("@@")
    if kind == "A" and name == "WEIGHTBRIDGE_0":
        continue  # the version node itself
    if kind != "T" or version != "WEIGHTBRIDGE_0":
        faults.append(f"exports {kind} {symbol}")
    functions.add(name)

wanted = declared(header)
if len(wanted) < 30:
    faults.append(f"only {len(wanted)} declarations found in {header}")
faults += [f"exports {name}, which the header does not declare" for name in functions - wanted]
faults += [f"does not export {name}" for name in wanted - functions]

# Opened at run time, or hidden inside: never a link-time need.
forbidden = re.compile(r"lib(uc[pst]|ucm|ibverbs|rdmacm|mlx5|cuda|nvidia|spdlog|fmt|boost|flatbuf)")
faults += [f"needs {library}" for library in needed(library) if forbidden.match(library)]

print("\n".join(faults) or f"{len(functions)} functions, nothing else")
sys.exit(bool(faults))
