#!/bin/bash
# Snakemake runs this inside the new environment: this checkout's zgcm beside the engines.
set -euo pipefail
python -m pip install --no-deps --editable "$ZGCM_CHECKOUT"
