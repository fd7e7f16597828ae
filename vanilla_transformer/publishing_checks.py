"""Says what keeps files from being published: damage, pickles, nan, keys, paths of a machine."""

import json
import reprlib
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePath

import torch
from safetensors import SafetensorError, safe_open

from .leaks import find_leaks

PICKLES = {".bin", ".ckpt", ".joblib", ".npy", ".npz", ".pickle", ".pkl", ".pt", ".pth"}
COMPRESSED = {".bz2", ".gz", ".xz", ".zst"}
FIRST_BYTES_OF_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
WEIGHTS = ".safetensors"
ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # by their first bytes; others are UTF-8
NAMES_SHOWN = 3
OF_THE_LIBRARY = {  # which takes for granted that these hold names with values
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json"),
}
WAY_OUT = "take it out, or leave the file out with --exclude {name}"


def refusals_of(files: dict[str, Path]) -> Iterator[str]:
    """Every reason not to publish these files, which have the names they would be published by."""
    for name, file in sorted(files.items()):
        way_out = WAY_OUT.format(name=name)
        if is_pickle(file):
            yield f"{name} must be no pickle, which can run code where it is loaded: {way_out}."
        elif file.suffix == WEIGHTS:
            yield from _refusals_of_weights(name, file)
        else:
            for leak in find_leaks(readable_part_of(file)):
                yield f"{name} must hold nothing private, got {leak}: {way_out}."


def refusals_of_json(files: dict[str, Path]) -> Iterator[str]:
    """Every file that is no JSON though its name says so: the library passes over some of them."""
    for name, file in sorted(files.items()):
        if file.suffix != ".json":
            continue
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            or_out = "" if name in OF_THE_LIBRARY else f", or leave it out with --exclude {name}"
            yield f"{name} must be JSON in UTF-8, got: {error}: save it again{or_out}."
        else:
            if name in OF_THE_LIBRARY and not isinstance(content, dict):
                said = reprlib.repr(content)
                yield f"{name} must hold names with values, got {said}: save it again."


def is_pickle(file: Path) -> bool:
    """By its ending, or by what it holds: a pickle, or an archive with one in it."""
    if is_named_as_pickle(file.name):
        return True
    with file.open("rb") as opened:
        if opened.read(2) in FIRST_BYTES_OF_PICKLES:
            return True
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(map(is_named_as_pickle, archive.namelist()))


def is_named_as_pickle(name: str) -> bool:
    """By its ending, or the one before the ending of what is compressed."""
    path = PurePath(name.lower())
    return (path.with_suffix("") if path.suffix in COMPRESSED else path).suffix in PICKLES


def readable_part_of(file: Path) -> str:
    """The text in a file, also beside pictures; of a tokenizer not its words, which are data."""
    content = file.read_bytes()
    text = content.decode(ENCODINGS.get(content[:2], "utf-8"), "replace")
    if file.name != "tokenizer.json":
        return text
    try:
        tokenizer = json.loads(text)
        return json.dumps({**tokenizer, "model": None}, ensure_ascii=False)
    except (ValueError, TypeError):
        return text


def _refusals_of_weights(name: str, file: Path) -> Iterator[str]:
    try:
        with safe_open(file, framework="pt") as weights:
            for leak in find_leaks(json.dumps(weights.metadata() or {}, ensure_ascii=False)):
                yield f"The metadata of {name} must hold nothing private, got {leak}: save it anew."
            bad = [key for key in weights.keys() if not is_finite(weights.get_tensor(key))]  # noqa: SIM118
    except SafetensorError as error:
        yield f"{name} must be whole, got {error}: save it again."
        return
    if bad:
        more = f" and {len(bad) - NAMES_SHOWN} more" if len(bad) > NAMES_SHOWN else ""
        yield (
            f"Weights must be finite, got nan or infinity in {', '.join(bad[:NAMES_SHOWN])}{more} "
            f"({name}): publish an earlier checkpoint."
        )


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether all of it is numbers; also of types that torch cannot ask, such as float8."""
    if not tensor.is_floating_point():
        return True
    known = tensor.float() if tensor.itemsize == 1 else tensor
    return bool(known.isfinite().all())
