"""Programs outside the tree are built against an installed copy, in C and in C++, by pkg-config and
by Meson, with every compiler given, and run: each verifies every byte that it pulls."""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from build_consumer import install, run

parser = argparse.ArgumentParser()
parser.add_argument("--build", required=True)
parser.add_argument("--c", required=True)
parser.add_argument("--cpp", required=True)
parser.add_argument("--flags", default="")
arguments = parser.parse_args()

sources = pathlib.Path(__file__).parent / "consumer"
extra = shlex.split(arguments.flags)

with tempfile.TemporaryDirectory(prefix="wb-install-") as temporary:
    work = pathlib.Path(temporary)
    libraries, words = install(arguments.build, work / "root")
    environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries), **words)

    headers = sorted(path.name for path in (work / "root").rglob("weightbridge.h*"))
    assert headers == ["weightbridge.h", "weightbridge.hpp"], headers

    def pkg_config(*options):
        command = ["pkg-config", *options, "weightbridge"]
        text = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        return shlex.split(text.stdout)

    flags = pkg_config("--cflags", "--libs")
    assert pkg_config("--modversion") == ["0.1.0"]
    private = [word for word in flags if word.startswith("-l") and word != "-lweightbridge"]
    assert not private, f"a consumer is told to link {private}"

    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", *extra]
    programs = []
    for source, standard, compilers in (
        ("consumer.c", "c99", arguments.c),
        ("consumer.cpp", "c++20", arguments.cpp),
    ):
        for compiler in compilers.split():
            program = work / f"{compiler}-{source}.out"
            run([compiler, f"-std={standard}", *strict, sources / source, *flags, "-o", program],
                env=environment)
            programs.append(program)

    shutil.copytree(sources, work / "project")
    setup = ["meson", "setup", work / "meson", work / "project", f"-Dc_args={arguments.flags}",
             f"-Dcpp_args={arguments.flags}", f"-Dc_link_args={arguments.flags}",
             f"-Dcpp_link_args={arguments.flags}"]
    run(setup, env=environment, stdout=subprocess.DEVNULL)
    run(["ninja", "-C", work / "meson", "--quiet"], env=environment)
    programs += [work / "meson" / "consumer_c", work / "meson" / "consumer_cpp"]

    for program in programs:
        run([program], env=environment, timeout=120)
print(f"{len(programs)} programs verified every byte")
