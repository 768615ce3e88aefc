"""`zgcm preflight`: does this machine do what the recipe needs, before GPU-weeks depend on it."""
