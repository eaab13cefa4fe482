#!/bin/bash
# Static analysis that needs no configured build: cppcheck over all sources.
# `clang-tidy -p build/release FILE` (.clang-tidy) goes deeper where one wants it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cppcheck --quiet --std=c++20 -j "$(nproc)" --enable=warning,performance,portability --inline-suppr \
  --suppress=missingInclude --suppress=unknownMacro --suppress=virtualCallInConstructor --suppress=internalAstError --suppress='*:tests/install/*' \
  --library=googletest --library=tools/cppcheck.cfg --error-exitcode=1 src tests fuzz
