"""What the tests that compile programs against the library share."""

import os
import pathlib
import shlex
import subprocess


def run(command, **options):
    print("+", shlex.join(str(word) for word in command), flush=True)
    subprocess.run([str(word) for word in command], check=True, **options)


def install(build, root):
    """Installs the build folder under `root`; returns (prefix inside root, pkg-config's words)."""
    environment = dict(os.environ, DESTDIR=str(root))
    run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], env=environment)
    found = list(pathlib.Path(root).rglob("weightbridge.pc"))
    assert len(found) == 1, f"one pkg-config file expected, found {found}"
    words = {
        "PKG_CONFIG_SYSROOT_DIR": str(root),
        "PKG_CONFIG_LIBDIR": str(found[0].parent),
    }
    return found[0].parent.parent, words
