#!/bin/bash
# Snakemake runs this inside the new environment: the learner's FlashAttention-3, compiled against its torch (half an
# hour or more; set MAX_JOBS to the number of cores for which there are 8 GB of memory each), then this checkout's zgcm.
set -euo pipefail
export MAX_JOBS="${MAX_JOBS:-8}"

python -m pip install setuptools wheel packaging einops
# The commit of megatron.post-deploy.sh. From torch 2.9 on it is built with torch's stable ABI.
python -m pip install --no-build-isolation \
    "flash_attn_3 @ git+https://github.com/Dao-AILab/flash-attention@c75d019dea9d910312974417bc28f190dfdda6d9#subdirectory=hopper"

python -m pip install --no-deps --editable "$ZGCM_CHECKOUT"
