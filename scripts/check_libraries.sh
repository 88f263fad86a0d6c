#!/usr/bin/env bash
# Checks that shared objects find every library, and find it either under our LibTorch folder or among the base libraries
# of the system. A CUDA toolkit that happens to be installed would hide a wheel that is missing.
#
#   scripts/check_libraries.sh <libtorch folder> <file>...
set -euo pipefail
root=$(realpath -m "$1"); shift
base='^(linux-vdso|ld-linux[a-z0-9-]*|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|atomic))\.so'
ours='^lib(mneme|fmt|pcre2-8|utf8proc|edit|tinfo|bsd|md|asan|ubsan|tsan)\.so'
driver='^lib(cuda|nvidia-ml)\.so'

for file; do
  while read -r name arrow path _; do
    name=${name##*/}
    if [[ $arrow == '=>' && $path == not ]]; then
      [[ $name =~ $driver ]] && continue
      echo "$file: $name is not found" >&2
      exit 1
    fi
    [[ $name =~ $base || $name =~ $ours || $name =~ $driver ]] && continue
    path=$(realpath -m "$path")
    if [[ $path != "$root"/* ]]; then
      echo "$file: $name comes from $path, which is outside $root" >&2
      exit 1
    fi
  done < <(env -u LD_LIBRARY_PATH -u LD_PRELOAD ldd "$file")
done
