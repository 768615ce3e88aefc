"""Dataset profiles, one file each. A file here is registered by its name (see zgcm.config.profiles)."""
