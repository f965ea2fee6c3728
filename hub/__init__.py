"""The Hugging Face Hub: the only package that knows huggingface_hub's cards and repositories."""
