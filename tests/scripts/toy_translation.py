"""A toy language pair: its words are translated one by one, and written in reverse order."""

import random

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import DataCollatorForSeq2Seq, PreTrainedTokenizerFast

from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration

SPECIAL_WORDS = ("<pad>", "<s>", "</s>", "<unk>")
DICTIONARY = {f"source{number}": f"target{number}" for number in range(24)}


def make_pairs(how_many, longest=5):
    words = random.Random(1)
    sources = [
        words.choices(list(DICTIONARY), k=words.randint(2, longest)) for _ in range(how_many)
    ]
    return [
        (" ".join(source), " ".join(DICTIONARY[word] for word in reversed(source)))
        for source in sources
    ]


def make_tokenizer():
    """One word, one id; both languages share the vocabulary."""
    words = [*SPECIAL_WORDS, *DICTIONARY, *DICTIONARY.values()]
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, "<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def make_examples(tokenizer, pairs):
    sources, targets = (tokenizer(list(side))["input_ids"] for side in zip(*pairs, strict=True))
    return [
        {"input_ids": source, "attention_mask": [1] * len(source), "labels": target}
        for source, target in zip(sources, targets, strict=True)
    ]


def make_model(seed=0, **changes):
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": len(SPECIAL_WORDS) + 2 * len(DICTIONARY),
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
    }
    return VanillaTransformerForConditionalGeneration(
        VanillaTransformerConfig(**{**sizes, **changes})
    )


def make_collator(tokenizer, model):
    return DataCollatorForSeq2Seq(tokenizer, model=model)
