#!/bin/bash
# Every C++ and CUDA source is as clang-format leaves it (.clang-format). `tools/check_format.sh --fix` rewrites them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(--dry-run -Werror)
[ "${1:-}" = --fix ] && mode=(-i)
find src tests fuzz \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -n 16 -P "$(nproc)" clang-format "${mode[@]}"
