"""`zgcm preflight`: does this machine do what the recipe needs, before GPU-weeks depend on it."""

PARTS = ("versions", "kernels", "sandbox", "allreduce", "storage", "losses", "reshard")
"""In the order in which they run; each is a module here with a function `check`."""
