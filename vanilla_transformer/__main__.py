"""`python -m vanilla_transformer` is the command `vanilla-transformer`."""

from .cli import main

main()
