"""The original Transformer as a first-class citizen of transformers: import it, and it is there."""

from importlib import import_module
from typing import TYPE_CHECKING

from .configuration_vanilla_transformer import VanillaTransformerConfig
from .registration import register
from .tokenization_vanilla_transformer import VanillaTransformerTokenizer

if TYPE_CHECKING:
    from .modeling_vanilla_transformer import (
        VanillaTransformerForConditionalGeneration,
        VanillaTransformerModel,
        VanillaTransformerPreTrainedModel,
    )

__all__ = [
    "VanillaTransformerConfig",
    "VanillaTransformerForConditionalGeneration",
    "VanillaTransformerModel",
    "VanillaTransformerPreTrainedModel",
    "VanillaTransformerTokenizer",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the models when they are first named."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".modeling_vanilla_transformer", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register()
