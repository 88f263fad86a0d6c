#!/usr/bin/env bash
# Style, architecture and clang-tidy.
#
#   scripts/lint.sh            checks; clang-tidy looks at what handles memory, threads and foreign bytes, and of that at
#                              what changed since it last passed
#   scripts/lint.sh --all      clang-tidy looks at everything
#   scripts/lint.sh format     rewrites the sources in our style and checks nothing
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${MNEME_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mneme}
mapfile -t sources < <(git ls-files --cached --others --exclude-standard mneme tests examples benchmarks | grep -E '\.(h|cc)$')

case ${1:-} in
  format) clang-format -i "${sources[@]}"; exit ;;
  --all) folders=(mneme examples); rm -rf "$cache/lint" ;;
  *) folders=(mneme/{base,audio,kernels,quant,cache,models,text}) ;;
esac
clang-format --dry-run -Werror "${sources[@]}"
scripts/check_includes.py

# clang-tidy needs the commands of a clang build, and the precompiled header that they name.
[[ -f build-lint/build.ninja ]] || cmake --preset lint -Wno-dev >/dev/null
cmake --build build-lint --target mneme_torch_header >/dev/null
scripts/clang_tidy.py build-lint "$cache/lint" "${folders[@]}"
