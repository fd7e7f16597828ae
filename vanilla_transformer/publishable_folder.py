"""Makes of a model folder another one that holds all a stranger needs; the first is only read."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from .card_facts import read_facts
from .configuration_rules import refuse
from .hub_upload import files_of
from .model_card import CardSubject, complaints_about_card, make_card
from .modeling_vanilla_transformer import VanillaTransformerForConditionalGeneration
from .pipeline_translation import TranslationPipeline
from .publishing_checks import refusals_of, refusals_of_json
from .run_facts import RECIPE, read_run_of
from .stored_weights import PARTS, WHOLE, stored_tensors
from .translators import ADAPTER, load_model, load_tokenizer, way_to_a_model

CARD, CURVES = "README.md", "training.png"
MADE_ANEW = ("*.py", "*.safetensors.index.json", RECIPE)  # what the source has of them may be old
IN_PARTS = (PARTS, f"{WHOLE}.index.json")  # such weights are not left out: they go in one file
Problems = list[str]


@dataclass
class Publication:
    """A folder that can be published, and the model in it."""

    folder: Path
    model: Any
    tokenizer: Any
    left_out: list[str] = field(default_factory=list)  # of what lies in the source
    remarks: list[str] = field(default_factory=list)


def make_folder(
    source: Path, folder: Path, *, name: str, card: Path | None, exclude: Sequence[str]
) -> Publication:
    """Write what is to be published into an empty folder, or say all that is against it."""
    check_source(source)
    made_anew = (*MADE_ANEW, CARD) if card else MADE_ANEW
    taken, left_out = choose_files(source, made_anew, exclude)
    damaged = [*refusals_of_json(taken)]
    problems = [*damaged, *refusals_of(taken)]
    loaded = None if damaged else attempt(lambda: load(source), problems)
    if loaded is None:
        raise ValueError("\n".join(problems))
    model, tokenizer = loaded
    model.save_pretrained(folder, state_dict=as_narrow_as_stored(model, source))
    tokenizer.save_pretrained(folder)
    for file_name, file in taken.items():
        if not (folder / file_name).exists() and file.suffix != ".safetensors":
            shutil.copyfile(file, folder / file_name)
    publication = Publication(folder, model, tokenizer)
    if not problems:  # only then does a model translate, as a card wants it
        attempt(lambda: write_card(source, publication, name, card), problems)
    written = {name: file for name, file in files_of(folder).items() if name not in taken}
    refuse([*problems, *refusals_of(written)])
    publication.left_out = sorted({*left_out, *files_that_vanish(source, folder)})
    return publication


def check_source(source: Path) -> None:
    """Refuse what is no folder of a model."""
    if not (source / "config.json").is_file():
        way_out = way_to_a_model(source)
        if (source / ADAPTER).is_file():
            way_out = "merge the adapter (peft: merge_and_unload), then save model and tokenizer."
        raise ValueError(f"MODEL must be a folder with a config.json, got {source}: {way_out}")


def choose_files(
    source: Path, made_anew: Sequence[str], exclude: Sequence[str]
) -> tuple[dict[str, Path], list[str]]:
    """The files of a model folder that matter, and the names of what is left out."""
    taken, left_out = {}, []
    for place in sorted(source.iterdir()):
        is_other = any(fnmatch(place.name, pattern) for pattern in exclude)
        if place.is_dir():
            left_out.append(f"{place.name}/")
        elif is_other or place.name.startswith("."):
            left_out.append(place.name)
        elif not any(fnmatch(place.name, pattern) for pattern in made_anew):
            taken[place.name] = place
    return taken, [name for name in left_out if name != "__pycache__/"]


def files_that_vanish(source: Path, folder: Path) -> Iterator[str]:
    """Files that were to be made anew and are not there again: code and weights of others."""
    for place in source.iterdir():
        is_there = (folder / place.name).exists() or any(
            fnmatch(place.name, one) for one in IN_PARTS
        )
        if place.is_file() and not is_there:
            yield place.name


def load(source: Path) -> tuple[Any, Any]:
    """Model and tokenizer, in the precision they have there."""
    tokenizer, model = load_tokenizer(str(source)), load_model(str(source), "auto")
    if type(model) is not VanillaTransformerForConditionalGeneration:
        raise ValueError(
            f"publish is for vanilla-transformer models, got {type(model).__name__}: its own "
            "push_to_hub publishes it."
        )
    if len(tokenizer) > model.config.vocab_size:
        raise ValueError(
            f"A tokenizer must know no more words than its model, got {len(tokenizer):,} and "
            f"{model.config.vocab_size:,}: save the one that the model was trained with."
        )
    return model, tokenizer


def as_narrow_as_stored(model: Any, source: Path) -> dict[str, Tensor]:
    """The weights to save: those that only became wider when they were read become narrow again."""
    state = model.state_dict()
    stored = {name: tensor.dtype for name, tensor in stored_tensors(source)}
    dtypes = {one.data_ptr(): stored[name] for name, one in state.items() if name in stored}
    narrow: dict[int, Tensor] = {}  # by where a tensor lies, as tied ones have to stay one
    for tensor in state.values():
        dtype = dtypes.get(tensor.data_ptr(), tensor.dtype)
        is_narrower = dtype.is_floating_point and dtype.itemsize < tensor.dtype.itemsize
        narrow[tensor.data_ptr()] = tensor.to(dtype) if is_narrower else tensor
    return {name: narrow[tensor.data_ptr()] for name, tensor in state.items()}


def write_card(source: Path, publication: Publication, name: str, card: Path | None) -> None:
    """Write the card, its recipe and its curves; a card that somebody wrote stays as it is."""
    folder, run = publication.folder, read_run_of(source)
    if run.recipe:
        text = yaml.safe_dump(run.recipe, sort_keys=False, allow_unicode=True)
        (folder / RECIPE).write_text(text, encoding="utf-8")
    facts_file, whole_card = (None, card) if card and card.suffix == ".md" else (card, None)
    if whole_card:
        shutil.copyfile(whole_card, folder / CARD)
    elif facts_file or not (folder / CARD).exists():
        facts = read_facts(facts_file) if facts_file else {}
        if run.curves:
            shutil.copyfile(run.curves, folder / CURVES)
        translate = translator_of(publication)
        subject = CardSubject(publication.model, name, facts, run, translate)
        (folder / CARD).write_text(make_card(subject), encoding="utf-8")
        if facts_file is None:
            publication.remarks.append("the card knows only the run: say more with --card FILE")
    refuse(
        f"{CARD}: {complaint}"
        for complaint in complaints_about_card((folder / CARD).read_text(encoding="utf-8"))
    )


def translator_of(publication: Publication) -> Callable[[str], str]:
    """What the card's examples are translated by."""
    translator = TranslationPipeline(model=publication.model, tokenizer=publication.tokenizer)
    return lambda text: str(translator(text)[0]["translation_text"])


def attempt(act: Callable[[], Any], problems: Problems) -> Any:
    """What a step returns; why it refuses goes to the other problems."""
    try:
        return act()
    except (ValueError, OSError) as error:
        problems.append(str(error))
        return None
