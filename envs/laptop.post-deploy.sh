#!/bin/bash
# Snakemake runs this inside the new environment: the locked packages, then this checkout's zgcm.
set -euo pipefail
python -m pip install --no-deps --requirement "$ZGCM_CHECKOUT/envs/laptop.lock"
python -m pip install --no-deps --editable "$ZGCM_CHECKOUT"
