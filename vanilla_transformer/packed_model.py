"""A model's weights laid out for generation, kept as long as nothing changes them."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from .fast_linear import FastLinear
from .packed_linear import OneDnnProduct, TorchProduct, best_way
from .target_decoder import PackedDecoder

RECORDER = "transformers.utils.output_capturing"
SAMPLES = 16  # numbers of each weight that tell whether it is still the same


class PackedModel:
    """The decoder as `TargetDecoder` wants it, and products in place of the encoder's layers."""

    def __init__(self, model: Any) -> None:
        self.places = _places_of(model)
        self.samples = _samples_of(model)
        self.sample = torch.cat(self.samples)
        self.decoder = PackedDecoder(model.model.decoder, model.lm_head, best_way(model.lm_head))
        self.encoder: dict[nn.Module, TorchProduct] = {
            layer: OneDnnProduct(layer.weight, layer.bias)
            for layer in _linears(model.model.encoder)
            if best_way(layer) is OneDnnProduct
        }

    def still_fits(self, model: Any) -> bool:
        """Whether the model's weights are those that were laid out."""
        return self.places == _places_of(model) and torch.cat(self.samples).equal(self.sample)


packed_models: WeakKeyDictionary[Any, PackedModel] = WeakKeyDictionary()


def packed_model(model: Any) -> PackedModel:
    """The packed model, made anew when a weight has changed since the last call."""
    packed = packed_models.get(model)
    if packed is None or not packed.still_fits(model):
        packed_models[model] = packed = PackedModel(model)
    return packed


def is_packable(model: Any) -> bool:
    """Whether the decoder's layers compute what their weights say, and nobody watches them."""
    config, decoder = model.config, model.model.decoder
    weight = decoder.embed_tokens.weight
    own = [model.lm_head, *_modules_of(decoder)]
    return (
        not model.training
        and config.attention_score in ("scaled_dot_product", "dot_product")
        and config.attention_window is None
        and config._attn_implementation in ("eager", "sdpa")
        and not torch.compiler.is_compiling()
        and weight.device.type != "meta"  # nor offloaded
        and not torch.is_autocast_enabled(weight.device.type)
        and all(_is_plain_module(module) for module in (model, model.model, *own))
        and all(
            type(one) is nn.Parameter and one.device == weight.device and one.dtype == weight.dtype
            for one in _parameters(own)
        )
    )


def _is_plain_module(module: nn.Module) -> bool:
    # The library's own hooks, which it never removes, only record what a call asks for.
    hooks = {hook.__module__ for hook in module._forward_hooks.values()} - {RECORDER}
    is_watched = hooks or module._forward_pre_hooks
    replaced = module.__dict__.get("forward")  # by the method itself: tools that put it back
    is_own = replaced is None or getattr(replaced, "__func__", None) is type(module).forward
    # accelerate's mixed precision keeps the original of a forward that it replaces.
    is_own = is_own or "_original_forward" in module.__dict__
    is_linear = isinstance(module, nn.Linear)
    return is_own and not is_watched and (not is_linear or type(module) is FastLinear)


def _modules_of(module: nn.Module) -> list[nn.Module]:
    """The module and all inside: `modules()` takes ten times as long, at every call."""
    found = [module]
    for one in found:
        found.extend(child for child in one._modules.values() if child is not None)
    return found


def _linears(encoder: Any) -> list[FastLinear]:
    return [
        module
        for module in _modules_of(encoder)
        if type(module) is FastLinear and type(module.weight) is nn.Parameter
    ]


def _parameters(modules: list[nn.Module]) -> list[Tensor]:
    return [one for module in modules for one in module._parameters.values() if one is not None]


def _weights_of(model: Any) -> list[Tensor]:
    encoder = _linears(model.model.encoder)
    return _parameters([*_modules_of(model.model.decoder), model.lm_head, *encoder])


def _places_of(model: Any) -> list[tuple[int, int]]:
    """Where the weights lie and how often they were written."""
    return [
        (one.data_ptr(), 0 if one.is_inference() else one._version) for one in _weights_of(model)
    ]


def _samples_of(model: Any) -> list[Tensor]:
    """Views of some numbers: writing through `.data`, as averages of weights do, shows only there.

    A view keeps its memory from being given to another weight.
    """
    return [
        one.detach().reshape(-1)[:: max(1, one.numel() // SAMPLES)] for one in _weights_of(model)
    ]
