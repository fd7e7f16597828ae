"""The original Transformer as a first-class citizen of transformers: import it, and it is there."""

from importlib import import_module
from typing import TYPE_CHECKING

from .registration import register

if TYPE_CHECKING:
    from .configuration_vanilla_transformer import VanillaTransformerConfig
    from .embedded_models import embedded
    from .modeling_vanilla_transformer import (
        VanillaTransformerForConditionalGeneration,
        VanillaTransformerModel,
        VanillaTransformerPreTrainedModel,
    )
    from .tokenization_vanilla_transformer import VanillaTransformerTokenizer

__all__ = [
    "VanillaTransformerConfig",
    "VanillaTransformerForConditionalGeneration",
    "VanillaTransformerModel",
    "VanillaTransformerPreTrainedModel",
    "VanillaTransformerTokenizer",
    "embedded",
]
MODULES = {
    "VanillaTransformerConfig": ".configuration_vanilla_transformer",
    "VanillaTransformerTokenizer": ".tokenization_vanilla_transformer",
    "embedded": ".embedded_models",
}
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import a class or function when it is first named."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = MODULES.get(name, ".modeling_vanilla_transformer")
    return getattr(import_module(module, __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register()
