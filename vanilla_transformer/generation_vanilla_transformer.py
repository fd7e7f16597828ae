"""How `generate` translates: the paper's decoding by default, and a search that wastes nothing.

The library prepares every call as for any model. Where a call asks for beams or the most probable
words and no more, the search of this package runs; everything else goes through the library's own
loops, with the same penalty, the same limits and so the same results.
"""

import copy
from numbers import Integral
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import Cache, GenerationConfig
from transformers.generation import (
    GenerationMixin,
    GenerationMode,
    LogitsProcessorList,
    StoppingCriteriaList,
)

from .beam_search import GnmtPenalty, StandardPenalty
from .fast_linear import laid_out_linears
from .generation_call import GenerationCall
from .packed_linear import Int8Linear
from .packed_model import is_packable, packed_model

# Section 6.1 of the paper. `max_extra_tokens`: how much longer than its source a target may be.
PAPER_DECODING: dict[str, Any] = {
    "num_beams": 4,
    "length_penalty": 0.6,
    "length_penalty_type": "gnmt",
    "early_stopping": "never",  # but when no open beam can win
    "max_extra_tokens": 50,
}
# Settings that speak for one beam, and those that speak for several; see `wants_one_beam`.
ONE_BEAM = {
    *("do_sample", "streamer", "compile_config"),
    *("assistant_model", "prompt_lookup_num_tokens"),
}
BEAMS = {"num_beams", "length_penalty", "length_penalty_type", "early_stopping"}
LEAST = {"num_beams": 1, "num_return_sequences": 1, "max_extra_tokens": 0}  # of whole numbers
OWN_MODES = {GenerationMode.GREEDY_SEARCH, GenerationMode.BEAM_SEARCH}
PENALTIES = {"gnmt": GnmtPenalty, "standard": StandardPenalty}


def paper_decoding(generation_config: GenerationConfig) -> None:
    """Make the paper's decoding the default of a new model."""
    generation_config.update(**PAPER_DECODING, allow_custom_entries=True)
    generation_config._from_model_config = False  # from such ones the library loads no own entries


def forget_default_length(config: GenerationConfig) -> None:
    """Seq2SeqTrainer fills a model's settings with all of the library's defaults, and leaves them.

    20 tokens are one of them: nobody asked for that limit, and it would cut translations.
    """
    defaults = GenerationConfig._get_default_generation_params()
    is_filled = all(
        getattr(config, name, None) is not None
        for name, value in defaults.items()
        if value is not None
    )
    if is_filled and config.max_length == defaults["max_length"]:
        config.max_length = None


class VanillaTransformerGenerationMixin(GenerationMixin):
    """The library's `generate` with the paper's penalty and limits, and a faster search."""

    def to_int8(self) -> Self:
        """Turn the weights of all linear layers into 8-bit integers: for translation on a CPU.

        They take a quarter of their memory, and the model translates faster, a little less exactly.
        It cannot be trained or saved any more.
        """
        if self.device.type != "cpu":
            raise ValueError(f"to_int8() needs a model on a CPU, got one on {self.device}.")
        self.eval().float().requires_grad_(False)
        for module in list(self.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, Int8Linear(child))
        return self

    def adjust_generation_fn(self, *args: Any, **kwargs: Any) -> None:
        """A folder without a generation_config.json means the paper's decoding too."""
        super().adjust_generation_fn(*args, **kwargs)
        if self.generation_config._from_model_config:
            paper_decoding(self.generation_config)

    def generate(
        self, inputs: Any = None, generation_config: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """The library's `generate`, with one beam where the caller chose a way that knows no more.

        Such ways are `do_sample` (False too: then the most probable word is taken), a `streamer`,
        an assistant or prompt lookup, and a `compile_config`. Naming `num_beams` overrules them.
        """
        settings = {**getattr(generation_config, "__dict__", {}), **kwargs}
        refuse_wrong_numbers(settings)
        forget_default_length(self.generation_config)
        if wants_one_beam(settings):
            if generation_config is None:
                kwargs["num_beams"] = 1
            else:
                generation_config = copy.deepcopy(generation_config)
                generation_config.num_beams = 1
        return super().generate(inputs, generation_config, *args, **kwargs)

    def _expand_inputs_for_generation(
        self, expand_size: int = 1, *args: Any, input_ids: Any = None, **model_kwargs: Any
    ) -> Any:
        """Go on from the caller's cache where it has a row for each target, else start anew."""
        cache = model_kwargs.get("past_key_values")
        known = cache.get_seq_length() if isinstance(cache, Cache) else 0
        if 0 < known <= input_ids.shape[1]:
            self_attention: Any = getattr(cache, "self_attention_cache", cache)
            rows = len(self_attention.layers[0].keys)
            if expand_size > 1 or rows != len(input_ids) or known == input_ids.shape[1]:
                model_kwargs["past_key_values"] = None
            elif model_kwargs.get("decoder_attention_mask") is None:  # by it known words are cut
                model_kwargs["decoder_attention_mask"] = torch.ones_like(input_ids)
        return super()._expand_inputs_for_generation(
            expand_size, *args, input_ids=input_ids, **model_kwargs
        )

    def _prepare_generated_length(
        self, generation_config: GenerationConfig, has_default_max_length: bool, **prepared: Any
    ) -> GenerationConfig:
        """Without a limit from the caller, a target may be some tokens longer than its source."""
        extra = getattr(generation_config, "max_extra_tokens", None)
        if extra is None or not has_default_max_length or generation_config.max_new_tokens:
            generation_config.max_extra_tokens = None
        else:
            source_length = prepared["inputs_tensor"].shape[1]
            generation_config.max_length = prepared["input_ids_length"] + source_length + extra
            has_default_max_length = False
        return super()._prepare_generated_length(
            generation_config=generation_config,
            has_default_max_length=has_default_max_length,
            **prepared,
        )

    def _validate_generated_length(
        self, generation_config: GenerationConfig, input_ids_length: int, has_default: bool
    ) -> None:
        """The limit by the source's length is no oversight of the caller: no warning."""
        has_default = has_default and generation_config.max_extra_tokens is None
        super()._validate_generated_length(generation_config, input_ids_length, has_default)

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        generation_mode: GenerationMode,
        *prepared: Any,
    ) -> None:
        """Prepare what a caller asks for; the default cache is made for a loop that needs it."""
        if (
            generation_mode not in OWN_MODES
            or generation_config.is_assistant
            or generation_config.cache_implementation
            or model_kwargs.get("past_key_values") is not None
        ):
            super()._prepare_cache_for_generation(
                generation_config, model_kwargs, generation_mode, *prepared
            )

    def _prepare_default_cache(
        self, generation_config: GenerationConfig, model_kwargs: dict[str, Any]
    ) -> None:
        """Prepare what the library's loops expect."""
        if model_kwargs.get("past_key_values") is None:
            mode = generation_config.get_generation_mode()
            super()._prepare_cache_for_generation(generation_config, model_kwargs, mode, 0, 0)

    def _prepare_text_encoder_decoder_kwargs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
        """Read the source with weights that are laid out already."""
        ready = packed_model(self).encoder if is_packable(self) else {}
        with laid_out_linears(ready):
            return super()._prepare_text_encoder_decoder_kwargs_for_generation(*args, **kwargs)

    def _beam_search(
        self,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **kwargs: Any,
    ) -> Any:
        kind = getattr(generation_config, "length_penalty_type", None) or "standard"
        if kind not in PENALTIES:
            raise ValueError(
                f"length_penalty_type must be one of {', '.join(PENALTIES)}, got {kind!r}."
            )
        generation_config.length_penalty = PENALTIES[kind](generation_config.length_penalty)
        call = GenerationCall(
            self, input_ids, logits_processor, stopping_criteria, generation_config, kwargs
        )
        if call.is_plain():
            return call.beam_search()
        self._prepare_default_cache(generation_config, kwargs)
        # With a dictionary come its sequences_scores, as from our search; the library asks for all.
        asked = generation_config.output_scores
        generation_config.output_scores = bool(generation_config.return_dict_in_generate)
        found = super()._beam_search(
            input_ids, logits_processor, call.criteria(), generation_config, **kwargs
        )
        if isinstance(found, Tensor) or asked:
            return found
        return type(found)(**{name: value for name, value in found.items() if name != "scores"})

    def _sample(
        self,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **kwargs: Any,
    ) -> Any:
        call = GenerationCall(
            self, input_ids, logits_processor, stopping_criteria, generation_config, kwargs
        )
        if call.is_plain() and not generation_config.return_dict_in_generate:
            return call.greedy_search()
        self._prepare_default_cache(generation_config, kwargs)
        return super()._sample(
            input_ids, logits_processor, call.criteria(), generation_config, **kwargs
        )


def refuse_wrong_numbers(settings: dict[str, Any]) -> None:
    """A clear error for what the library takes, and stumbles over later or never."""
    for name, least in LEAST.items():
        value = settings.get(name)
        if value is not None and not (isinstance(value, Integral) and int(value) >= least):
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def wants_one_beam(settings: dict[str, Any]) -> bool:
    """Whether a call that names these settings says how, but nothing of the default's beams."""
    named = {name for name, value in settings.items() if value is not None}
    wants_several = "num_return_sequences" in named and settings["num_return_sequences"] > 1
    can_be_one = settings.get("do_sample") or not wants_several
    return bool(named & ONE_BEAM) and not named & BEAMS and can_be_one
