"""`pipeline("translation")`: text in, translated text out, for every sequence-to-sequence model.

A call goes the way of its texts: they are cut into pieces (lines, sentences) and tokenized, the
pieces of a batch are sorted by length and generated, and each text is put together again.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers.pipelines.base import Pipeline
from transformers.utils import logging

from .generation_settings import (
    ONE_BY_ONE,
    PIPELINE_DECODING,
    assistance,
    generation_settings,
    overrule,
)
from .sentence_splits import Passage
from .source_reading import SourceReader, tokenizer_lock
from .token_words import words_of_tokens
from .translation_call import Call, Translations
from .translation_records import Hypothesis, Records, written
from .translation_tasks import languages_of
from .word_alignment import cross_attention

logger = logging.get_logger(__name__)

CHOICES = {"on_long_input": ("split", "truncate", "error"), "on_error": ("raise", "record")}
WRITING = ("return_text", "return_tensors", "return_type", "clean_up_tokenization_spaces")
BATCH_SIZE = 32  # of lists, and of the pieces of a text; what is lazy is read one by one


class TranslationPipeline(Pipeline):
    """Translates texts as transformers 4 did, and whole documents, with scores or alignments."""

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(self, model: Any, *args: Any, task: str = "translation", **kwargs: Any) -> None:
        if not model.config.is_encoder_decoder:
            raise ValueError(
                "Translation needs a sequence-to-sequence model, got "
                f"{type(model).__name__}: load one with AutoModelForSeq2SeqLM."
            )
        tasks = getattr(model.config, "task_specific_params", None) or {}
        if task == "translation":
            task = next((name for name in tasks if name.startswith("translation")), task)
            if task != "translation":
                told = f'"translation" task was used, instead of "translation_XX_to_YY": "{task}"'
                warnings.warn(f"{told} is taken", UserWarning, stacklevel=3)
        self.task_settings = dict(tasks.get(task) or {})
        own_prefix = getattr(model.config, "prefix", None)
        self.prefix: str = self.task_settings.pop("prefix", own_prefix) or ""
        assistant = [kwargs.pop(name, None) for name in ("assistant_model", "assistant_tokenizer")]
        super().__init__(model, *args, task=task, **kwargs)
        self._forward_params |= assistance(model, self.tokenizer, *assistant)

    def __call__(
        self,
        inputs: Any,
        *args: Any,
        num_workers: int | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Translate a text, a list or column of texts, or lazily a dataset or generator of texts.

        Args:
            inputs: What to translate.
            *args: Ignored, as by every pipeline.
            num_workers: Accepted as in version 4; no processes are started.
            batch_size: How many texts are read, and how many sentences generated, at once.
            batch_tokens: How many tokens of sentences, padding counted, are generated at once;
                then `batch_size` only says how many texts are read.
            **kwargs: `src_lang`, `tgt_lang`, `on_long_input` ("split", "truncate", "error"),
                `truncation`, `on_error` ("raise", "record"), `return_text`, `return_tensors`,
                `return_scores`, `return_alignment`, `clean_up_tokenization_spaces`,
                `stop_sequence`, and whatever `generate` takes.
        """
        if args:
            logger.warning(f"Ignoring args : {args}")
        reading, generating, writing = self._sanitize_parameters(**kwargs)
        reading = {**self._preprocess_params, **reading}
        generating = overrule(self._forward_params, generating)
        writing = {**self._postprocess_params, **writing}
        writing["num_texts"] = self._num_returned(generating)
        for name in ("return_scores", "return_alignment"):
            writing[name] = generating.get(name, False)
        records_errors = reading.pop("on_error", "raise") == "record"
        is_lazy = isinstance(inputs, Dataset) or not isinstance(inputs, Sequence)
        is_single = isinstance(inputs, str | bytes | Mapping) or not (
            isinstance(inputs, Iterable | Dataset)
        )
        reads_one = (is_lazy and not is_single) or ONE_BY_ONE & generating.keys()
        sizes = batch_size, self._batch_size, 1 if reads_one else BATCH_SIZE
        size = next(size for size in sizes if size is not None)
        call = Call(self, size, reading, generating, writing, records_errors, batch_tokens)
        if is_single:
            return next(call.results([inputs]))
        if is_lazy:
            return Translations(call.results(_elements(inputs)), inputs)
        results = list(call.results_with_bar(inputs))
        is_flat = all(len(records) == 1 for records in results)
        return [records[0] for records in results] if is_flat else results

    def _sanitize_parameters(
        self,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        truncation: Any = None,
        stop_sequence: str | None = None,
        **wishes: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        task = wishes.pop("task", None) or self.task
        if not (src_lang or tgt_lang):
            src_lang, tgt_lang = languages_of(task) or (None, None)
        reading: dict[str, Any] = {"src_lang": src_lang, "tgt_lang": tgt_lang}
        if getattr(truncation, "value", truncation) not in (None, False, "do_not_truncate"):
            reading["on_long_input"] = "truncate"
        for name, choices in CHOICES.items():
            if (choice := wishes.pop(name, None)) is not None:
                reading[name] = choice
                if choice not in choices:
                    raise ValueError(f"{name} must be one of {choices}, got {choice!r}.")
        if stop_sequence is not None:
            wishes["eos_token_id"] = self._stop_token(stop_sequence)
        writing = {name: wishes.pop(name) for name in WRITING if name in wishes}
        return (
            {name: value for name, value in reading.items() if value is not None},
            wishes,
            writing,
        )

    def _stop_token(self, stop_sequence: str) -> int:
        with tokenizer_lock:
            ids: list[int] = self.tokenizer.encode(stop_sequence, add_special_tokens=False)
        if not ids:
            raise ValueError(f"stop_sequence must be one token, got none in {stop_sequence!r}.")
        if len(ids) > 1:
            told = f"stop_sequence must be one token, got {len(ids)}: only the first one stops."
            warnings.warn(told, UserWarning, stacklevel=4)
        return ids[0]

    @property
    def reader(self) -> SourceReader:
        """What turns texts into batches of ids, with the tokenizer that is set now."""
        return SourceReader(self.tokenizer, self.model.config, self.prefix)

    def preprocess(self, text: str, **reading: Any) -> Passage:
        """A text in tokenized pieces that are short enough for the model."""
        return self.reader.read(text, **reading)

    def _forward(
        self,
        model_inputs: dict[str, Any],
        return_scores: bool = False,
        return_alignment: bool = False,
        **wishes: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each row of a batch."""
        rows = {name: value for name, value in model_inputs.items() if isinstance(value, Tensor)}
        told = {name: value for name, value in model_inputs.items() if name not in rows}
        wishes = overrule(self.task_settings, {**told, **wishes})
        sequences, scores = self._generate(rows, wishes, return_scores)
        times = len(sequences) // len(rows["input_ids"])
        attentions: Any = [None] * len(sequences)
        if return_alignment:
            rows = {name: row.repeat_interleave(times, dim=0) for name, row in rows.items()}
            attentions = cross_attention(self.model, rows, sequences).cpu()
        ends = self._setting("eos_token_id", wishes)
        hypotheses = [
            Hypothesis(written(ids, ends, self.tokenizer.pad_token_id), score, attention)
            for ids, score, attention in zip(sequences.cpu(), scores, attentions, strict=True)
        ]
        return [hypotheses[row : row + times] for row in range(0, len(hypotheses), times)]

    def _generate(
        self, rows: dict[str, Tensor], wishes: dict[str, Any], return_scores: bool
    ) -> tuple[Tensor, list[float | None]]:
        if return_scores:
            # Our own beams have their scores at hand; all else needs those of all words.
            is_ours = self.model.config.model_type == "vanilla_transformer"
            has_scores = is_ours and self._setting("num_beams", wishes) > 1
            asked = {"return_dict_in_generate": True, "output_scores": not has_scores}
            wishes = {**wishes, **asked}
        defaults, padding = self.model.generation_config, self.tokenizer.pad_token_id
        found = self.model.generate(**rows, **generation_settings(defaults, wishes, padding))
        if not return_scores:
            found = getattr(found, "sequences", found)
            return found, [None] * len(found)
        scores = getattr(found, "sequences_scores", None)
        if scores is None:
            words = self.model.compute_transition_scores(
                found.sequences, found.scores, normalize_logits=True
            )
            ends = self._setting("eos_token_id", wishes)
            lengths = [len(written(ids, ends, None)) for ids in found.sequences]
            scores = torch.stack(
                [row[: length - 1].sum() for row, length in zip(words, lengths, strict=True)]
            )
        return found.sequences, scores.tolist()

    def _setting(self, name: str, wishes: dict[str, Any]) -> Any:
        """What `generate` will take for one of its settings."""
        configs = wishes.get("generation_config"), self.model.generation_config
        values = [wishes.get(name), *(getattr(config, name, None) for config in configs)]
        known = (value for value in values if value is not None)
        return next(known, PIPELINE_DECODING.get(name))

    def _num_returned(self, wishes: dict[str, Any]) -> int:
        return self._setting("num_return_sequences", overrule(self.task_settings, wishes)) or 1

    def postprocess(
        self,
        found: tuple[Passage, list[list[Hypothesis]]],
        num_texts: int = 1,
        return_text: bool | None = None,
        return_tensors: bool | None = None,
        return_type: Any = None,
        clean_up_tokenization_spaces: bool = False,
        **extras: bool,
    ) -> list[dict[str, Any]]:
        """A record for each translation of a text, best first."""
        passage, hypotheses = found
        if return_type is not None:  # version 4's TENSORS is 0
            return_tensors = getattr(return_type, "value", return_type) == 0

        def decode(ids: Any) -> str:
            clean = {"clean_up_tokenization_spaces": clean_up_tokenization_spaces}
            with tokenizer_lock:
                text: str = self.tokenizer.decode(ids, skip_special_tokens=True, **clean)
            return text

        records = Records(
            decode,
            words_of=partial(words_of_tokens, self.tokenizer, decode=decode),
            prefix=self.prefix,
            with_text=bool(return_text) or not return_tensors,
            with_ids=bool(return_tensors),
            with_score=extras.get("return_scores", False),
            with_alignment=extras.get("return_alignment", False),
        )
        return [
            records.write(passage, [ranked[rank] for ranked in hypotheses])
            for rank in range(num_texts)
        ]


def _elements(inputs: Any) -> Iterator[Any]:
    """What a lazy input gives, also where a dataset only knows numbers."""
    if hasattr(inputs, "__iter__"):
        return iter(inputs)
    return (inputs[index] for index in range(len(inputs)))
