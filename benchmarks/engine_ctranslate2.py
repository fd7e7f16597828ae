"""The contestants in C++: CTranslate2 in float32 and int8, in a process without torch."""

from functools import cache
from pathlib import Path
from typing import Any

import ctranslate2

from benchmarks.engine_process import Loader, Sentences, Translator, serve
from benchmarks.numbered_words import read_words, write_words


@cache
def _load_translator(
    folder: Path, compute_type: str, inter_threads: int, intra_threads: int
) -> Any:
    return ctranslate2.Translator(
        str(folder / "ctranslate2"),
        compute_type=compute_type,
        inter_threads=inter_threads,
        intra_threads=intra_threads,
    )


class Engine:
    """A CTranslate2 model, with settings that say how it cuts batches and shares threads."""

    def __init__(self, folder: Path, compute_type: str, settings: dict[str, int]) -> None:
        self.max_batch_size = settings["max_batch_size"]
        self.translator = _load_translator(
            folder, compute_type, settings["inter_threads"], settings["intra_threads"]
        )

    def prepare(self, sentences: Sentences) -> list[list[str]]:
        return [write_words(one) for one in sentences]

    def translate(self, prepared: list[list[str]], beams: int, limit: int) -> Any:
        return self.translator.translate_batch(
            prepared,
            beam_size=beams,
            max_decoding_length=limit,
            max_batch_size=self.max_batch_size,
            batch_type="examples",
            return_end_token=True,
        )

    def read(self, outputs: Any) -> Sentences:
        return [read_words(one.hypotheses[0]) for one in outputs]


def _load(compute_type: str) -> Loader:
    def load(folder: Path, threads: int, settings: dict[str, int]) -> Translator:
        return Engine(folder, compute_type, settings)

    return load


LOADERS = {"CTranslate2 float32": _load("float32"), "CTranslate2 int8": _load("int8")}


if __name__ == "__main__":
    serve(LOADERS)
