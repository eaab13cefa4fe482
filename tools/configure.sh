#!/bin/bash
# Configures a preset (release, debug, asan) unless that was done with the same settings. Later changes of CMake files
# are seen by the build itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
stamp=build/$preset/configured-with
settings="torch=${TORCH:-} deps=${DEPS_DIR:-$PWD/.deps} args=${CMAKE_ARGS:-}
parquet=$(ls -d "${DEPS_DIR:-.deps}"/pyarrow-* 2>/dev/null || true)"
if [ -e "build/$preset/build.ninja" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$settings" ]; then exit 0; fi
# shellcheck disable=SC2086  # CMAKE_ARGS is a list of words
cmake --preset "$preset" -DSATFORMER_TORCH_DIR="${TORCH:-}" -DSATFORMER_DEPS_DIR="${DEPS_DIR:-$PWD/.deps}" \
  ${CMAKE_ARGS:-}
printf '%s\n' "$settings" >"$stamp"
