#!/bin/bash
# Installs a build tree into a temporary prefix and builds and runs a program that knows nothing but that prefix.
#   run.sh BUILD_DIR CXX_COMPILER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$2" \
  -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/build"
"$work/build/consumer"
for file in man/man1/satformer.1 man/man1/satformer-train.1 bash-completion/completions/satformer \
  zsh/site-functions/_satformer fish/vendor_completions.d/satformer.fish; do
  [ ! -x "$1/satformer" ] || [ -s "$work/prefix/share/$file" ] || { echo "not installed: share/$file"; exit 1; }
done
[ ! -x "$1/satformer" ] || "$work/prefix/bin/satformer" --help >/dev/null
