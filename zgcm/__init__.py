"""zgcm: one workflow from raw text to an RL-trained language model (the open ZGCM-1 7B recipe)."""

__version__ = "0.1.0"
