"""One call to `generate`: whether our search can answer it, and the search in parts of a batch."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig
from transformers.generation import (
    EosTokenCriteria,
    GenerateBeamEncoderDecoderOutput,
    LogitsProcessorList,
    MaxLengthCriteria,
    NoRepeatNGramLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
)

from .beam_search import BeamSearch, SearchOptions, greedy_search
from .packed_model import is_packable, packed_model
from .target_decoder import TargetDecoder

PLAIN_INPUTS = {"attention_mask", "encoder_outputs", "use_cache", "logits_to_keep"}
SENTENCES_AT_ONCE, ROWS_AT_ONCE = 64, 128  # on a CPU: more do not fit its caches


class SourceLengthCriteria(StoppingCriteria):
    """Stops each target at a length of its own."""

    def __init__(self, limits: Tensor) -> None:
        self.limits = limits

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        limits = self.limits.repeat_interleave(len(input_ids) // len(self.limits))
        return input_ids.shape[1] >= limits.to(input_ids.device)


class GenerationCall:
    """A call as the library prepared it: a row for each beam of each sentence."""

    def __init__(
        self,
        model: Any,
        input_ids: Tensor,
        processors: LogitsProcessorList,
        criteria: StoppingCriteriaList,
        config: GenerationConfig,
        inputs: dict[str, Any],
    ) -> None:
        self.model, self.config, self.inputs = model, config, inputs
        self.processors, self.stopping_criteria = processors, criteria
        self.num_beams = config.num_beams or 1
        self.start = input_ids[:: self.num_beams]

    @cached_property
    def limits(self) -> Tensor:
        """The length of the longest target that each sentence may have, its start included."""
        limits = torch.full_like(self.start[:, 0], self.config.max_length)
        mask, extra = self.inputs.get("attention_mask"), self.config.max_extra_tokens
        if mask is None or extra is None:
            return limits
        source_lengths = mask[:: self.num_beams].sum(dim=1).to(limits)
        return limits.minimum(self.start.shape[1] + source_lengths + extra)

    def criteria(self) -> StoppingCriteriaList:
        """What stops the library's loops: the caller's criteria, and a limit for each sentence."""
        return StoppingCriteriaList([*self.stopping_criteria, SourceLengthCriteria(self.limits)])

    def is_plain(self) -> bool:
        """Whether it asks for nothing but words, of a model that is as it was built."""
        config = self.config
        asked = {
            name for name, value in self.inputs.items() if value is not None and value is not False
        }
        return (
            asked <= PLAIN_INPUTS
            and self.start.shape[1] == 1
            and not (config.do_sample or config.output_scores or config.output_logits)
            and config.use_cache
            and all(
                type(one) in (MaxLengthCriteria, EosTokenCriteria) for one in self.stopping_criteria
            )
            and is_packable(self.model)
        )

    def beam_search(self) -> Any:
        """The best targets, as the library's beam search returns them."""
        options = self.options
        found = [
            (rows, *BeamSearch(decoder, start, limits, options).run())
            for rows, decoder, start, limits in self._parts()
        ]
        sequences = self._collect([(rows, targets) for rows, targets, _ in found]).flatten(0, 1)
        if not self.config.return_dict_in_generate:
            return sequences
        scores = torch.cat([scores for *_, scores in found])
        order = torch.cat([rows for rows, *_ in found]).argsort()
        return GenerateBeamEncoderDecoderOutput(
            sequences=sequences, sequences_scores=scores[order].flatten()
        )

    def greedy_search(self) -> Tensor:
        """The targets of most probable words."""
        options = self.options
        return self._collect(
            [
                (rows, greedy_search(decoder, start, limits, options))
                for rows, decoder, start, limits in self._parts()
            ]
        )

    @cached_property
    def options(self) -> SearchOptions:
        config = self.config
        ends = config._eos_token_tensor
        padding = config._pad_token_tensor
        if ends is None:
            ends = self.start.new_empty(0)
        if self.num_beams > 1:  # the library's filler: where padding is word 0, the end
            padding = padding or (ends[0] if len(ends) else -1)
        # Beside other processors, which may see or change what it bans, it keeps its place.
        is_alone = [type(one) for one in self.processors] == [NoRepeatNGramLogitsProcessor]
        return SearchOptions(
            num_beams=self.num_beams,
            num_returned=config.num_return_sequences,
            ends=ends,
            filler=int(padding) if padding is not None else 0,
            penalty=config.length_penalty,
            early_stopping=config.early_stopping,
            ngram_size=self.processors[0].ngram_size if is_alone else 0,
            process=self.processors if self.processors and not is_alone else None,
        )

    def _parts(self) -> Iterator[tuple[Tensor, TargetDecoder, Tensor, Tensor]]:
        """Sentences of similar length, a few at a time, and a decoder that has read them."""
        source = self.inputs["encoder_outputs"][0][:: self.num_beams]
        mask, limits = self.inputs.get("attention_mask"), self.limits
        lengths = torch.full_like(limits, source.shape[1])
        if mask is not None:
            mask = mask[:: self.num_beams]
            is_word = mask.flip(1).ne(0).int()
            lengths = source.shape[1] - is_word.argmax(dim=1)  # up to the last real word
        packed = packed_model(self.model).decoder
        is_whole = self.options.process is not None or source.device.type != "cpu"
        order = torch.arange(len(source), device=source.device)
        if not is_whole:
            order = lengths.argsort(descending=True, stable=True)
        at_once = max(1, min(SENTENCES_AT_ONCE, ROWS_AT_ONCE // self.num_beams))
        for rows in order.split(len(order) if is_whole else at_once):
            length = int(lengths[rows].max())
            decoder = TargetDecoder(
                packed,
                source[rows, :length],
                None if mask is None else mask[rows, :length],
            )
            yield rows, decoder, self.start[rows, 0], limits[rows]

    def _collect(self, parts: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The targets of all parts in the order of their sentences, as long as the longest."""
        options = self.options
        width = max(targets.shape[-1] for _, targets in parts)
        padded = [
            functional.pad(targets, (0, width - targets.shape[-1]), value=options.filler)
            for _, targets in parts
        ]
        order = torch.cat([rows for rows, _ in parts]).argsort()
        targets = torch.cat(padded)[order]
        is_end = torch.isin(targets[..., 1:], options.ends)
        first_end = is_end.int().argmax(dim=-1) + 2
        limits = self.limits.view(-1, *[1] * (targets.dim() - 2))
        lengths = first_end.where(is_end.any(dim=-1), limits).minimum(limits)
        return targets[..., : int(lengths.max())]
