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
# Conflict markers of a merge.
check markers bash -c '! grep -rnE "^(<<<<<<<|>>>>>>>) " src docs tests tools cmake fuzz configs ./*.md'
check names python3 tools/check_names.py
check configs python3 tools/make_configs.py --check
check tools python3 tools/check_test.py
check format tools/check_format.sh
check lint tools/check_lint.sh
if [ ${#failed[@]} -gt 0 ]; then
  echo "check: failed: ${failed[*]}"
  exit 1
fi
