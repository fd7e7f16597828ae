"""Makes models: a recipe in, a folder that `from_pretrained` loads out."""
