#!/bin/bash
# A SATFormer and a Transformer learn from real English text under the same budget: same tokens, order, batch and rate.
# Text: Debian's dict-gcide (Webster's dictionary of 1913 and its successors), or TEXT=PATH: whatever
# `satformer prepare` reads, text or JSON lines, plain or gzip, a file, a folder or a glob.
# ARCHITECTURES="satformer muddformer" or ARCHITECTURES=all trains others.
#
# Everything lies under demo/ (demo/NAME/ with TEXT). What is there is not made again: an interrupted training goes on
# where it stopped. After a finished demo the next one trains anew and keeps the finished runs as previous-runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
satformer=${SATFORMER:-build/release/satformer}
text=${TEXT:-}
vocabulary=4096
prompt=${PROMPT:-Light}
architectures=${ARCHITECTURES:-satformer transformer}
[ "$architectures" != all ] || architectures="satformer transformer resformer denseformer muddformer hyperconnections"

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%sdemo: %s%s\n' "$bold" "$*" "$plain"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }

[ -x "$satformer" ] || die "$satformer is not built: run 'make build'"
for architecture in $architectures; do
  [ -e "configs/$architecture/tiny.json" ] ||
    die "ARCHITECTURES names '$architecture', which is none of: $(cd configs && ls -d */ | tr -d / | tr '\n' ' ')"
done
demo=demo
if [ -n "$text" ]; then
  name=$(basename "$text")
  demo=demo/${name%%.*}
  case "$demo" in demo/data | demo/runs | demo/text | demo/results | demo/previous-runs | demo/) demo=demo/text-${name%%.*} ;; esac
fi
data=$demo/data
runs=$demo/runs
mkdir -p "$demo"

# The dictionary as dictd has it, from the installed package or from the package file alone.
dictionary() {
  local package=$demo/text/dict-gcide file=usr/share/dictd/gcide.dict.dz
  for place in "/$file" "$package/$file"; do
    if [ -e "$place" ]; then
      echo "$place"
      return
    fi
  done
  echo "demo: fetching Debian's dict-gcide (15 MB)" >&2
  mkdir -p "$package"
  (
    cd "$package"
    download=(apt-get -q -o APT::Sandbox::User=root download dict-gcide)
    "${download[@]}" >&2 || { [ "$(id -u)" -eq 0 ] && apt-get -q update >&2 && "${download[@]}" >&2; } || exit 1
    dpkg -x dict-gcide_*.deb . && rm -f dict-gcide_*.deb
  ) || { rm -rf "$package"
    die "the package dict-gcide could not be fetched: install it as root (apt-get install dict-gcide) or name a text with TEXT=PATH"; }
  echo "$package/$file"
}

# Writes $demo/text/dictionary.txt: one document for each entry, each ended by a line "%%".
dictionary_text() {
  local to=$demo/text/dictionary.txt from
  mkdir -p "$demo/text"
  from=$(dictionary)
  gzip -dc <"$from" | LC_ALL=C tr -d '\200-\377' | LC_ALL=C awk -f tools/dictionary_text.awk >"$to.partial"
  [ -s "$to.partial" ] || die "no text came out of the dictionary"
  mv "$to.partial" "$to"
}

prepare() {
  local identity="dictionary"
  if [ -n "$text" ]; then
    [ -e "$text" ] || compgen -G "$text" >/dev/null || die "TEXT=$text does not exist"
    identity="$(realpath -m "$text") $(stat -c '%s %Y' "$text" 2>/dev/null || true)"
  fi
  if [ -e "$data/manifest.json" ]; then
    [ "$(cat "$demo/made-from" 2>/dev/null)" = "$identity" ] ||
      die "$demo was made from another text or another state of it: remove that folder to begin anew"
    return
  fi
  rm -rf "$data"
  printf '%s\n' "$identity" >"$demo/made-from"
  say "preparing ${text:-the dictionary}: a tokenizer of $vocabulary pieces, then token shards"
  if [ -z "$text" ]; then
    [ -s "$demo/text/dictionary.txt" ] || dictionary_text
    "$satformer" prepare "$demo/text/dictionary.txt" --document-separator '%%' --train-tokenizer "$vocabulary" -o "$data"
  else
    "$satformer" prepare "$text" --min-document-bytes 2000 --train-tokenizer "$vocabulary" -o "$data"
  fi
}

train() {  # ARCHITECTURE
  local run=$runs/$1
  [ ! -e "$run/demo-finished" ] || return 0
  say "training a tiny $1 into $run"
  mkdir -p "$run"
  "$satformer" train --config "configs/$1/tiny.json" --data.data_dir="$data" --checkpointing.checkpoint_dir="$run" \
    --resume auto
  touch "$run/demo-finished"
}

summary() {
  local results=$demo/results
  mkdir -p "$results"
  for architecture in $architectures; do
    "$satformer" eval --model "$runs/$architecture" --data-dir "$data" --output "$results/$architecture-eval.json" \
      >/dev/null
    "$satformer" generate --model "$runs/$architecture" --prompt "$prompt" --max-new-tokens 60 --temperature 0.7 \
      --seed 1 --no-stream >"$results/$architecture-sample.txt"
  done
  case " $architectures " in *" satformer "*)
    "$satformer" gates --model "$runs/satformer" --data-dir "$data" --output "$results/satformer-gates.json" >/dev/null ;;
  esac
  say "the same tokens, order, batch and rate for all"
  # shellcheck disable=SC2086
  python3 tools/demo_summary.py "$demo" $architectures | tee "$results/summary.txt"
}

prepare
if [ -e "$runs/finished" ]; then
  rm -rf "$demo/previous-runs"
  mv "$runs" "$demo/previous-runs"
  say "the finished runs of the last demo are kept in $demo/previous-runs"
fi
start=$SECONDS
for architecture in $architectures; do train "$architecture"; done
trained=$SECONDS
summary
touch "$runs/finished"
say "training took $((trained - start)) s; runs in $runs, data in $data, this summary in $demo/results"
