#!/bin/bash
# The built program, quickly: it starts, names its commands, refuses nonsense with the documented exit codes, and
# accepts every config of configs/ without data or weights.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
satformer=${SATFORMER:-build/release/satformer}

expect() {  # EXIT_CODE COMMAND...
  local wanted=$1 code=0
  shift
  "$@" >/tmp/satformer-smoke.$$ 2>&1 || code=$?
  if [ "$code" -ne "$wanted" ]; then
    echo "smoke: '$*' exited with $code instead of $wanted:"
    cat /tmp/satformer-smoke.$$
    exit 1
  fi
}
trap 'rm -f /tmp/satformer-smoke.$$' EXIT

expect 0 "$satformer" --version
expect 0 "$satformer" --help
for command in prepare train eval generate gates info verify; do
  expect 0 "$satformer" "$command" --help
done
expect 2 "$satformer"
expect 2 "$satformer" trian
expect 2 "$satformer" train --no-such-option
expect 3 "$satformer" train --config configs/satformer/tiny.json --dry-run --training.learning_rat=1
expect 6 "$satformer" train --config no-such-file.json --dry-run

count=0
for config in configs/*/*.json configs/ablations/*/*.json; do
  expect 0 "$satformer" train --config "$config" --dry-run --device cpu
  if grep -q 'unused here' /tmp/satformer-smoke.$$; then
    echo "smoke: $config has keys without effect:"
    cat /tmp/satformer-smoke.$$
    exit 1
  fi
  count=$((count + 1))
done
echo "smoke: commands and exit codes as documented, $count configs accepted"
