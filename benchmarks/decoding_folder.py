"""One model saved for every engine: ours, MarianMT's with a tokenizer, and CTranslate2's."""

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from benchmarks.contestants import Size
from benchmarks.decoding_weights import build_decoding_model
from benchmarks.marian_twin import marian_twin
from benchmarks.numbered_words import SPECIAL, vocabulary


def save_word_tokenizer(vocab_size: int, folder: Path) -> None:
    """Write a tokenizer that reads numbered words between blanks."""
    numbers = {word: number for number, word in enumerate(vocabulary(vocab_size))}
    padding, start, end = SPECIAL
    tokenizer = Tokenizer(WordLevel(numbers, unk_token=padding))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=padding,
        bos_token=start,
        eos_token=end,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def save_contestants(size: Size, folder: Path) -> None:
    """Write all models of one size; meant for a process of its own."""
    save_for_engines(build_decoding_model(size), folder)
    save_word_tokenizer(size.vocab_size, folder / "marian")


def save_for_engines(model: PreTrainedModel, folder: Path) -> None:
    """Write one model's weights as each engine reads them."""
    from benchmarks.ctranslate2_twin import save_ctranslate2_twin  # loads CTranslate2

    model.save_pretrained(folder / "ours")
    twin = marian_twin(model)
    twin.generation_config = GenerationConfig.from_model_config(twin.config)
    twin.save_pretrained(folder / "marian")
    save_ctranslate2_twin(model, folder / "ctranslate2")
