"""Learns byte-level BPE (Sennrich et al., 2016; Radford et al., 2019) from counted words."""

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice, repeat, starmap

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from vanilla_transformer import VanillaTransformerTokenizer
from vanilla_transformer.word_by_word import PIECES

from .word_counts import WordCounts

PAD, START, END = "<pad>", "<s>", "</s>"  # ids 0, 1, 2: pad, start and end of the configuration
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())  # a letter for each of the 256 bytes
UNUSED = "<unused"  # fills the vocabulary of a small corpus up to a multiple of 8
MULTIPLE = 8  # vocabulary sizes that matrix products like
MODEL_MAX_LENGTH = 1024  # of the configuration: max_position_embeddings
PIECES_A_FEED = 1000
LONGEST_WORD = 1000  # to learn from: the library's trainer takes hours for a megabyte of "aaa"

SMALLEST_VOCABULARY = -(-(3 + len(ALPHABET)) // MULTIPLE) * MULTIPLE


def learn_tokenizer(
    counts: WordCounts, vocabulary_size: int, min_frequency: int = 2
) -> VanillaTransformerTokenizer:
    """A tokenizer of at most `vocabulary_size` entries, rounded up to a multiple of 8."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    trainer = BpeTrainer(
        vocab_size=vocabulary_size + -vocabulary_size % MULTIPLE,
        min_frequency=min_frequency,
        special_tokens=[AddedToken(token, special=True) for token in (PAD, START, END)],
        initial_alphabet=ALPHABET,
        show_progress=sys.stderr.isatty(),
    )
    backend.train_from_iterator(_repeated(count_pieces(counts)), trainer)
    unused = -backend.get_vocab_size() % MULTIPLE
    backend.add_special_tokens([f"{UNUSED}{index}>" for index in range(unused)])
    return _finish(backend)


def count_pieces(counts: WordCounts) -> Counter[str]:
    """How often each piece occurs that BPE may not merge across, in letters for bytes."""
    cut = byte_level_pieces()
    pieces: Counter[str] = Counter()
    for word, count in counts:
        for piece, _ in cut.pre_tokenize_str(word[:LONGEST_WORD]):
            pieces[piece] += count
    return pieces


def byte_level_pieces() -> pre_tokenizers.PreTokenizer:
    """Cuts a text where no merge may reach across, and writes a letter for each byte."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _repeated(pieces: Counter[str]) -> Iterator[str]:
    """The library's trainer takes text and no counts: every piece as often as it occurs.

    This is twice as fast as to let it cut the corpus itself, and the merges are the same.
    """
    stream = chain.from_iterable(starmap(repeat, pieces.items()))
    while batch := list(islice(stream, PIECES_A_FEED)):
        yield " ".join(batch)


def _finish(backend: Tokenizer) -> VanillaTransformerTokenizer:
    backend.pre_tokenizer = byte_level_pieces()
    backend.decoder = decoders.ByteLevel()
    end = backend.token_to_id(END)
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B:1 {END}:1", special_tokens=[(END, end)]
    )
    return VanillaTransformerTokenizer(
        tokenizer_object=backend,
        pad_token=PAD,
        bos_token=START,
        eos_token=END,
        model_max_length=MODEL_MAX_LENGTH,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],  # older releases would add a third
        split_special_tokens=True,  # "</s>" in a sentence is text
        clean_up_tokenization_spaces=False,
    )
