#!/usr/bin/env bash
# Installs the peers that compare.py measures, from PyPI, into $MNEME_CACHE/peers/venv. llama.cpp is built here, for this
# machine, by clang: built by g++ 12 its AMX kernels crash, and older clangs have other names for what it asks before it
# uses them. Several GB, most of them torch's; some 15 minutes on two cores.
set -euo pipefail
peers=${MNEME_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mneme}/peers
[[ -x $peers/venv/bin/pip ]] || python3 -m venv "$peers/venv"
install() { "$peers/venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }
install torch==2.13.0 transformers==5.23.0 accelerate gguf optimum-quanto==0.2.7 hqq==0.2.8.post1
install openvino-genai==2026.4.1 onnxruntime-genai==0.18.0 onnx==1.23.2 onnx-ir==1.1.0
amx=$(clang -march=native -dM -E -x c /dev/null | sed -nE 's/^#define __AMX(TILE|INT8|BF16)__ 1$/-D__AMX_\1__=1/p' | tr '\n' ' ')
CC=clang CXX=clang++ CFLAGS=$amx CXXFLAGS=$amx CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" \
  install llama-cpp-python==0.3.36
echo "$peers/venv"
