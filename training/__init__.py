"""Trains models: a recipe in, a folder of checkpoints that `from_pretrained` loads out."""
