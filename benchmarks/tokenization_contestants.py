"""Who splits sentences: our bundle, MarianTokenizer, raw sentencepiece, subword-nmt."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from transformers import AutoTokenizer

import vanilla_transformer  # noqa: F401 - AutoTokenizer then knows ours
from benchmarks.tokenization_training import OURS_BUNDLE, SENTENCEPIECE_MODEL, SUBWORD_NMT_CODES

OURS, REFERENCE = "ours", "MarianTokenizer"


class Contestant(Protocol):
    """Splits a batch of sentences, and joins what it split."""

    adds_end: bool  # whether a row of `encode` has the end token already

    def encode(self, sentences: list[str]) -> list[Any]: ...

    def decode(self, rows: list[Any]) -> list[str]: ...


class OfTransformers:
    """A tokenizer of transformers, called as its users do."""

    adds_end = True

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def encode(self, sentences: list[str]) -> list[list[int]]:
        return self.tokenizer(sentences)["input_ids"]

    def decode(self, rows: list[list[int]]) -> list[str]:
        return self.tokenizer.batch_decode(rows, skip_special_tokens=True)


class RawSentencepiece:
    """The C++ library itself."""

    adds_end = False

    def __init__(self, model: Path, threads: int) -> None:
        import sentencepiece

        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        self.threads = threads

    def encode(self, sentences: list[str]) -> list[list[int]]:
        return self.processor.encode(sentences, num_threads=self.threads)

    def decode(self, rows: list[list[int]]) -> list[str]:
        return self.processor.decode(rows, num_threads=self.threads)


class SubwordNmt:
    """Pieces as text, for it knows no ids."""

    adds_end = False

    def __init__(self, codes: Path) -> None:
        from subword_nmt.apply_bpe import BPE

        with codes.open(encoding="utf-8", newline="\n") as merges:
            self.bpe = BPE(merges)

    def encode(self, sentences: list[str]) -> list[list[str]]:
        return [self.bpe.process_line(sentence).split(" ") for sentence in sentences]

    def decode(self, rows: list[list[str]]) -> list[str]:
        return [" ".join(row).replace("@@ ", "") for row in rows]


def open_ours(folder: Path, threads: int) -> Contestant:
    """Load the bundle; its threads are those of the process (RAYON_NUM_THREADS)."""
    return OfTransformers(AutoTokenizer.from_pretrained(str(folder / OURS_BUNDLE)))


def open_marian(folder: Path, threads: int) -> Contestant:
    """Build MarianTokenizer on the sentencepiece model; it is Python, of one thread."""
    from sentencepiece import SentencePieceProcessor
    from transformers import MarianTokenizer

    model, vocabulary = folder / SENTENCEPIECE_MODEL, folder / "vocab.json"
    processor = SentencePieceProcessor(model_file=str(model))
    pieces = [processor.id_to_piece(index) for index in range(len(processor))]
    entries = {piece: index for index, piece in enumerate([*pieces, "<pad>"])}
    vocabulary.write_text(json.dumps(entries), encoding="utf-8")
    with warnings.catch_warnings():  # it asks for sacremoses, and never calls it (5.23)
        warnings.filterwarnings("ignore", message=".*sacremoses")
        return OfTransformers(MarianTokenizer(str(model), str(model), str(vocabulary)))


def open_sentencepiece(folder: Path, threads: int) -> Contestant:
    """Load the sentencepiece model."""
    return RawSentencepiece(folder / SENTENCEPIECE_MODEL, threads)


def open_subword_nmt(folder: Path, threads: int) -> Contestant:
    """Load the merges of subword-nmt, which is Python, of one thread."""
    return SubwordNmt(folder / SUBWORD_NMT_CODES)


CONTESTANTS: dict[str, Callable[[Path, int], Contestant]] = {
    OURS: open_ours,
    REFERENCE: open_marian,
    "sentencepiece": open_sentencepiece,
    "subword-nmt": open_subword_nmt,
}
