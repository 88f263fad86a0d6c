#!/usr/bin/env bash
# Style, architecture and clang-tidy.
#
#   scripts/lint.sh            clang-tidy looks at the sources that differ from the main branch
#   scripts/lint.sh --all      clang-tidy looks at every source
#   scripts/lint.sh format     rewrites the sources in our style and checks nothing
set -euo pipefail
cd "$(dirname "$0")/.."
folders=(mneme tests examples benchmarks)
mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- "${folders[@]}" | grep -E '\.(h|cc)$')

if [[ ${1:-} == format ]]; then
  clang-format -i "${sources[@]}"
  exit
fi
clang-format --dry-run -Werror "${sources[@]}"
scripts/check_includes.py

changed() {
  local base; base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD~1 2>/dev/null || git rev-parse HEAD)
  git diff --name-only --diff-filter=d "$base" -- "${folders[@]}"
  git ls-files --others --exclude-standard -- "${folders[@]}"
}
if [[ ${1:-} == --all ]]; then candidates=("${sources[@]}"); else mapfile -t candidates < <(changed | sort -u); fi

# clang-tidy needs the commands of a clang build, and the precompiled header that they name.
[[ -f build-lint/build.ninja ]] || cmake --preset lint -Wno-dev >/dev/null
cmake --build build-lint --target mneme_torch_header >/dev/null
mapfile -t compiled < <(python3 -c '
import json, os
for entry in json.load(open("build-lint/compile_commands.json")):
    print(os.path.relpath(entry["file"]))')
mapfile -t checked < <(comm -12 <(printf '%s\n' "${candidates[@]}" | sort -u) <(printf '%s\n' "${compiled[@]}" | sort -u))
echo "lint: clang-tidy on ${#checked[@]} of ${#compiled[@]} sources"
((${#checked[@]} == 0)) || printf '%s\0' "${checked[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build-lint
