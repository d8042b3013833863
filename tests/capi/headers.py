"""The public headers compile alone, without a warning, as every language they promise."""

import subprocess
import sys

include, c_compilers, cpp_compilers = sys.argv[1], sys.argv[2].split(), sys.argv[3].split()
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]

runs = []
for compiler in c_compilers:
    for standard in ("c99", "c11", "c17"):
        runs.append((compiler, "-xc", f"-std={standard}", "-Wstrict-prototypes", "weightbridge.h"))
for compiler in cpp_compilers:
    runs.append((compiler, "-xc++", "-std=c++11", "weightbridge.h"))
    runs.append((compiler, "-xc++", "-std=c++20", "weightbridge.hpp"))
    runs.append((compiler, "-xc++", "-std=c++20", "-fno-exceptions", "-fno-rtti",
                 "weightbridge.hpp"))

failed = 0
for compiler, *flags, header in runs:
    command = [compiler, *flags, *STRICT, f"-I{include}", "-"]
    result = subprocess.run(command, input=f"#include <weightbridge/{header}>\n", text=True)
    if result.returncode != 0:
        print("failed:", " ".join(command), "with", header)
        failed += 1
print(f"{len(runs) - failed} of {len(runs)} compile")
sys.exit(failed != 0)
