#!/bin/bash
# Installs what the build needs: Debian packages (tools/apt-packages.txt) and, under DEPS_DIR (default .deps), the pinned
# packages of tools/requirements*.txt. Does nothing, quickly, when all is there.
#
#   tools/setup.sh            DEPS_DIR=...  where the pinned packages go
#                             TORCH=...     an installed torch package to use: nothing is downloaded for it
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=${DEPS_DIR:-$root/.deps}
torch=${TORCH:-}
# The name of each folder carries its version: a new pin is a new folder.
torch_version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$root/tools/requirements.txt")
pyarrow_version=$(sed -n 's/^pyarrow==\([^ ]*\).*/\1/p' "$root/tools/requirements-parquet.txt")
sentencepiece_version=$(sed -n 's/^sentencepiece==\([^ ]*\).*/\1/p' "$root/tools/requirements-source.txt")

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

debian_packages() {
  local wanted missing=()
  mapfile -t wanted < <(grep -v '^#' "$root/tools/apt-packages.txt")
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system: make sure that the equivalents of these are installed: ${wanted[*]}"
    return
  fi
  local installed package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
  for package in "${wanted[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    printf 'setup: these Debian packages are missing. Install them as root, then run make again:\n\n' >&2
    printf '  apt-get update && apt-get install -y --no-install-recommends %s\n\n' "${missing[*]}" >&2
    exit 1
  fi
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q || say "apt-get update failed; going on with the package lists at hand"
  apt-get install -y -q --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}"
}

# A temporary folder beside its final place, renamed when complete, so that an interrupted set-up leaves nothing that
# looks finished.
partial=
cleanup() { [ -z "$partial" ] || rm -rf "$partial"; }
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
remove_leftovers() {  # of a set-up that was killed
  local old
  for old in "$deps"/.partial-*; do
    [ ! -d "$old" ] || kill -0 "${old##*.}" 2>/dev/null || rm -rf "$old"
  done
}
begin() {  # NAME MEGABYTES
  mkdir -p "$deps"
  local free
  free=$(df -Pm "$deps" | awk 'NR == 2 {print $4}')
  [ "$free" -ge "$2" ] || die "$deps has $free MB free; $1 needs about $2 MB"
  partial=$deps/.partial-$1.$$
  mkdir -p "$partial"
}
finish() {  # FROM TO
  # Whoever was first has won: both are the same.
  [ -d "$2" ] || mv -T "$1" "$2"
  cleanup
  partial=
}
pip() { PIP_ROOT_USER_ACTION=ignore python3 -m pip --disable-pip-version-check --no-input "$@"; }

torch_wheels() {
  if [ -n "$torch" ]; then
    [ -e "$torch/lib/libtorch_cpu.so" ] && [ -d "$torch/include/ATen" ] ||
      die "TORCH=$torch is not an installed torch package: expected lib/libtorch_cpu.so and include/ATen in it"
    return
  fi
  local goal=$deps/torch-$torch_version
  [ -d "$goal" ] && return
  [ "$(uname -sm)" = "Linux x86_64" ] ||
    die "the pinned wheels are for Linux on x86-64, this is $(uname -sm): name an installed torch with TORCH=DIR"
  say "downloading torch $torch_version into $goal (0.5 GB to fetch, 1.3 GB unpacked)"
  begin torch 3000
  pip install --quiet --progress-bar off --no-deps --no-compile --require-hashes --only-binary=:all: \
    --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    --target "$partial/torch" -r "$root/tools/requirements.txt" || die "the torch wheels could not be installed"
  finish "$partial/torch" "$goal"
}

sentencepiece_source() {
  local goal=$deps/sentencepiece-$sentencepiece_version
  [ -d "$goal" ] && return
  say "downloading the source of sentencepiece $sentencepiece_version into $goal"
  begin sentencepiece 100
  # pip asks a source package for its metadata before it hands it over. The installed setuptools can answer; without
  # one, pip fetches its own.
  local fetch=(download --quiet --progress-bar off --no-deps --require-hashes --no-binary=:all: -d "$partial"
    -r "$root/tools/requirements-source.txt")
  pip "${fetch[@]}" --no-build-isolation >"$partial/log" 2>&1 || pip "${fetch[@]}" ||
    die "the source of sentencepiece could not be downloaded"
  tar --no-same-owner -xzf "$partial/sentencepiece-$sentencepiece_version.tar.gz" -C "$partial"
  finish "$partial/sentencepiece-$sentencepiece_version" "$goal"
}

# For reading Parquet alone: what cannot be fetched is only said.
pyarrow_wheel() {
  local goal=$deps/pyarrow-$pyarrow_version
  [ -d "$goal" ] && return
  [ "$(uname -sm)" = "Linux x86_64" ] || return 0
  say "downloading pyarrow $pyarrow_version into $goal (55 MB to fetch, 70 MB kept), for reading Parquet"
  begin pyarrow 600
  if ! pip install --quiet --progress-bar off --no-deps --no-compile --require-hashes --only-binary=:all: \
    --python-version 3.11 --implementation cp --platform manylinux_2_28_x86_64 \
    --target "$partial/all" -r "$root/tools/requirements-parquet.txt"; then
    say "pyarrow could not be fetched: the build will do without Parquet; make setup tries again"
    cleanup
    partial=
    return
  fi
  # Of the Python package no more than the headers, the two libraries and the licences.
  mkdir -p "$partial/kept/pyarrow"
  mv "$partial/all/pyarrow/include" "$partial"/all/pyarrow/lib{arrow,parquet}.so.[0-9]* "$partial"/all/*.dist-info \
    "$partial/kept/pyarrow"
  finish "$partial/kept" "$goal"
}

debian_packages
remove_leftovers
torch_wheels
sentencepiece_source
pyarrow_wheel
