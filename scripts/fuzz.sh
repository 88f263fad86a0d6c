#!/usr/bin/env bash
# Runs every libFuzzer target of build-fuzz/ for some seconds, several at a time. What a target learns stays in
# build-fuzz/corpus/; tests/fuzz/seeds/<target>/ is where it starts. A finding is written to build-fuzz/findings/.
#
#   scripts/fuzz.sh <seconds for each> <targets at a time>
set -euo pipefail
cd "$(dirname "$0")/.."
duration=$1 jobs=$2

fuzz_one() {
  local target=$1 name; name=$(basename "$target")
  local corpus=build-fuzz/corpus/$name findings=build-fuzz/findings/$name seeds=tests/fuzz/seeds/${name%_fuzz}
  local folders=("$corpus")
  mkdir -p "$corpus" "$findings"
  [[ -d $seeds ]] && folders+=("$seeds")
  if "$target" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$findings/" -print_final_stats=1 \
      "${folders[@]}" >"$findings/log" 2>&1; then
    echo "fuzz: $name passed, $(awk '/number_of_executed_units/ { print $2 }' "$findings/log") inputs"
  else
    tail -n 40 "$findings/log"
    echo "fuzz: $name FAILED; the input is in $findings/"
    return 1
  fi
}
export -f fuzz_one

targets=$(find build-fuzz/fuzzers -type f -executable | sort)
[[ -n $targets ]] || { echo "fuzz: no targets"; exit 0; }
xargs -P "$jobs" -I{} bash -c 'fuzz_one "$@"' _ {} "$duration" <<<"$targets"
