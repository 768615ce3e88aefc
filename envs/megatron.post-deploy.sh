#!/bin/bash
# Snakemake runs this inside the new environment: the engines that are compiled against its torch (an hour or two;
# set MAX_JOBS to the number of cores for which there are 8 GB of memory each), then this checkout's zgcm.
set -euo pipefail
export MAX_JOBS="${MAX_JOBS:-8}" NVTE_FRAMEWORK=pytorch NVTE_CUDA_ARCHS="${NVTE_CUDA_ARCHS:-90}"
export FLASH_ATTN_CUDA_ARCHS="${FLASH_ATTN_CUDA_ARCHS:-90}" TORCH_CUDA_ARCH_LIST="${TORCH_CUDA_ARCH_LIST:-9.0}"
build() { python -m pip install --no-build-isolation "$@"; }

python -m pip install setuptools wheel packaging einops
build "transformer-engine[core_cu13,pytorch]==2.15.0"
build "flash-attn==2.8.3"
# FlashAttention-3 has no release; this commit calls itself 3.0.0, as the published runs did.
build "flash_attn_3 @ git+https://github.com/Dao-AILab/flash-attention@c75d019dea9d910312974417bc28f190dfdda6d9#subdirectory=hopper"

python -m pip install --no-deps --editable "$ZGCM_CHECKOUT"
