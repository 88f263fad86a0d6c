#!/usr/bin/env bash
# Installs a build into an empty prefix and uses it from there as a stranger would.
#   check.sh <build folder> <LibTorch folder> <version> <static library of a layer>...
set -euo pipefail
build=$1 libtorch=$2 version=$3; shift 3
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
fail() { echo "$*" >&2; exit 1; }

cmake --install "$build" --prefix "$prefix" >/dev/null
library=$(find "$prefix" -name libmneme.so)
[[ -n $library ]] || fail "no libmneme.so was installed"

symbols() { nm -P -g --defined-only "$@" 2>/dev/null | awk '$2 ~ /^[TDBR]$/ { print $1 }' | sort -u; }
lost=$(comm -23 <(symbols "$@") <(symbols -D "$library"))
[[ -z $lost ]] || fail "symbols of the layers that libmneme.so lacks: $(c++filt <<<"$lost" | head -n 5)"

cmake -S "$here" -B "$prefix/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug >"$prefix/log" 2>&1 &&
  cmake --build "$prefix/consumer" >>"$prefix/log" 2>&1 || fail "the consumer does not build: $(cat "$prefix/log")"
output=$("$prefix/consumer/consumer") || fail "the consumer fails: $output"
[[ $output == "$version"$'\n'* ]] || fail "the consumer wrote \"$output\", not version $version first"
[[ $("$prefix/bin/mneme" --version) == *"$version"* ]] || fail "the installed program does not say version $version"
"$prefix/bin/mneme" generate --model "$here/../golden/models/llama" --ids 1,2 --max-new-tokens 1 --json >/dev/null ||
  fail "the installed program does not find what it loads for models"

"$here/../../scripts/check_libraries.sh" "$libtorch" "$library" "$prefix/bin/mneme" "$(find "$prefix" -name libmneme-tasks.so)" \
  "$prefix/consumer/consumer"
