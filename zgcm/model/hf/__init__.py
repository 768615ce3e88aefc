"""The model for transformers. Both files are copied into every export, so they import nothing of zgcm."""
