#!/bin/bash
# All checks that need no build. Goes through all of them and fails at the end if one failed.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=()
check() {  # NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  if "$@"; then
    printf 'check: %-8s ok (%d s)\n' "$name" $((SECONDS - start))
  else
    printf 'check: %-8s FAILED\n' "$name"
    failed+=("$name")
  fi
}
check levels python3 tools/check_levels.py
check sizes python3 tools/check_sizes.py
check configs python3 tools/make_configs.py --check
check tools python3 tools/check_test.py
check format tools/check_format.sh
check lint tools/check_lint.sh
if [ ${#failed[@]} -gt 0 ]; then
  echo "check: failed: ${failed[*]}"
  exit 1
fi
