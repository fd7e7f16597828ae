"""The tokenizer of a run: one that exists, or one learned from the run's training corpus."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from tokenizer.bundle import write_bundle
from tokenizer.byte_pairs import learn_tokenizer
from tokenizer.measures import measure
from tokenizer.readme import describe_bundle
from tokenizer.train import Options, count_words
from training.corpus import find_one
from training.recipe import CorpusSection
from training.whole_files import make_once

ORIGIN = "learned_from.json"


def prepare_tokenizer(section: CorpusSection, folder: Path) -> Any:
    """The tokenizer that a recipe names; if it names none, the one in the folder, learned once."""
    if section.tokenizer is None:
        make_once(folder, partial(_learn, section))
        _refuse_other_origin(section, folder)
    place = section.tokenizer or str(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(place)
    except Exception as error:  # the library raises whatever its parsers raise
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"corpus.tokenizer must be the folder of a whole tokenizer or a name on the Hub, got "
            f"{place}: {reason}. Leave it out to have one learned from the corpus."
        ) from error
    check_tokenizer(tokenizer)
    return tokenizer


def check_tokenizer(tokenizer: Any) -> None:
    """Refuse a tokenizer that no translation model can be trained with."""
    name = tokenizer.name_or_path or type(tokenizer).__name__
    lacking = [word for word in ("pad_token", "eos_token") if getattr(tokenizer, word) is None]
    if lacking:
        raise ValueError(
            f"A tokenizer must have a pad_token and an eos_token, got {name} without "
            f"{' and '.join(lacking)}: set them and save it again."
        )
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise ValueError(f"A tokenizer must be a fast one, with a tokenizer.json, got {name}.")
    ids = tokenizer("a b", verbose=False)["input_ids"]
    if ids[-1:] != [tokenizer.eos_token_id]:
        raise ValueError(
            f"A tokenizer must end each sentence with its eos_token, or a model never learns to "
            f"stop, got {tokenizer.convert_ids_to_tokens(ids)} from {name}: give it a "
            "post-processor that adds it."
        )
    if set(ids[:-1]) <= {tokenizer.unk_token_id, *tokenizer.all_special_ids}:
        raise ValueError(
            f"A tokenizer must know letters, got {tokenizer.convert_ids_to_tokens(ids)} for 'a b' "
            f"from {name}: its vocabulary is empty or for another script."
        )


def refuse_other_vocabulary(tokenizer: Any, vocab_size: int) -> None:
    """Refuse a model without a row for every token; rows that no token uses do no harm."""
    if len(tokenizer) > vocab_size:
        raise ValueError(
            f"A model must have a row for every token, got vocab_size={vocab_size} for the "
            f"{len(tokenizer)} tokens of {tokenizer.name_or_path}: leave model.vocab_size out, or "
            "use the tokenizer this model was made with."
        )


def _learn(section: CorpusSection, folder: Path) -> None:
    corpora = [find_one(section, corpus.places) for corpus in section.train]
    languages = (section.source, section.target)
    options = Options(languages, section.vocabulary_size)
    sides = count_words(corpora, options)
    tokenizer = learn_tokenizer(sides[0] + sides[1], options.vocabulary_size)
    measures = {
        language: measure(tokenizer, counts)
        for language, counts in zip(languages, sides, strict=True)
    }
    command = "# by a training run, from its recipe:\n" + "\n".join(
        f"# corpus.{name}: {value}" for name, value in _origin(section).items()
    )
    readme = describe_bundle(tokenizer, corpora, measures, command, options.licence)
    write_bundle(tokenizer, readme, folder)
    (folder / ORIGIN).write_text(json.dumps(_origin(section)) + "\n", encoding="utf-8")


def _origin(section: CorpusSection) -> dict[str, Any]:
    """What decides about a learned tokenizer, but for what the files hold."""
    return {
        "train": [list(corpus.places) for corpus in section.train],
        "source": section.source,
        "target": section.target,
        "lowercase": section.lowercase,
        "vocabulary_size": section.vocabulary_size,
    }


def _refuse_other_origin(section: CorpusSection, folder: Path) -> None:
    """A run's folder that holds the tokenizer of another recipe is no place for this one."""
    try:
        found = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{folder} must be a tokenizer that a run has learned, got: {error}. Delete it, and it "
            "is learned anew; checkpoints of this run need the old one."
        ) from error
    wanted = _origin(section)
    others = [
        f"corpus.{name} {found.get(name)}" for name in wanted if found.get(name) != wanted[name]
    ]
    if others:
        raise ValueError(
            f"{folder} must be learned as the recipe says, got one of {', '.join(others)}: choose "
            "another --output, or the recipe it was made by; or delete it, if the run has no "
            "checkpoints yet."
        )
