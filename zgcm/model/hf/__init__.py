"""The Hugging Face side of the model. Both files are copied into every export, so they import nothing of zgcm."""
