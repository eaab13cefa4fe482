#!/bin/bash
# Compiles the GPU's kernels with nvcc and links program and kernel tests with them. Needs no GPU; without nvcc it says so
# and succeeds. A release build before it makes it short: only the kernels and one other file are compiled anew.
#   CUDA_ARCHITECTURES=90   for which GPUs; "80;86;89;90;100;120" for all that are supported
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v nvcc >/dev/null; then
  echo "cuda_build: skipped, nvcc is not on PATH"
  exit 0
fi
CMAKE_ARGS="${CMAKE_ARGS:-} -DCMAKE_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES:-90}" tools/configure.sh cuda
targets="satformer kernels_test"
if grep -q '^SATFORMER_NCCL_INCLUDE:PATH=/' build/cuda/CMakeCache.txt; then
  targets="$targets satformer_nccl"
else
  echo "cuda_build: no nccl.h, so satformer-nccl.so is left out"
fi
# shellcheck disable=SC2086
cmake --build build/cuda -j "${JOBS:-$(nproc)}" --target $targets
build/cuda/satformer --version
