"""What an output that is not complete was begun with, in a small file beside it.

So an interrupted run goes on only as it began, and behind what is known to be written. The file is
replaced as a whole after each chunk and removed at the end; what the output holds beyond it was
being written when the run was killed, and is written again.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from . import __version__
from .file_replacement import replace_file
from .packed_linear import Int8Linear


@dataclass
class Unfinished:
    """How much of an output is there, and of which run."""

    run: dict[str, Any]  # all that the output depends on but its input
    num_chunks: int = 0
    num_bytes: int = 0
    source: str = ""  # a digest of the chunks that are translated

    def add(self, lines: Sequence[str]) -> None:
        """Count one more chunk."""
        text = "\n".join([self.source, *lines])
        self.source = hashlib.sha256(text.encode()).hexdigest()
        self.num_chunks += 1

    def write(self, output: Path) -> None:
        """Put it beside the output, in one piece."""
        replace_file(beside(output), json.dumps(asdict(self), indent=1).encode())

    def check_run(self, run: dict[str, Any], output: Path) -> None:
        """Refuse to go on otherwise than it began."""
        changes = [
            f"{name} {value!r} (was {self.run[name]!r})"
            for name, value in run.items()
            if value != self.run.get(name, value)
        ]
        if changes:
            raise ValueError(
                f"An output must be resumed as it was begun, got for {output} another "
                f"{', '.join(changes)}: take what it was, or start again with --force."
            )


def beside(output: Path) -> Path:
    """Where it is written: out.txt -> out.txt.unfinished."""
    return output.with_name(f"{output.name}.unfinished")


def read_unfinished(output: Path) -> Unfinished | None:
    """What stands beside an output; None where nothing does."""
    try:
        return Unfinished(**json.loads(beside(output).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{beside(output)} must be as it was written, got {error}: start again with --force."
        ) from error


def describe_run(model: Any, tokenizer: Any, options: Any) -> dict[str, Any]:
    """All that the output depends on but its input."""
    is_int8 = any(isinstance(module, Int8Linear) for module in model.modules())
    dtype = "int8" if is_int8 else str(model.dtype).removeprefix("torch.")
    described = {**asdict(options), "dtype": dtype, "version": __version__}
    return {**described, f"model in {dtype}": digest_of(model, tokenizer)}


def digest_of(model: Any, tokenizer: Any) -> str:
    """A number for a model: its weights, its words and how it decodes."""
    digest = hashlib.sha256()
    for part in _parts(model, tokenizer):
        digest.update(part)
    return digest.hexdigest()[:16]


def _parts(model: Any, tokenizer: Any) -> Iterator[bytes]:
    for weight in model.parameters():
        yield weight.detach().cpu().flatten().view(torch.uint8).numpy().data
    decoding = model.generation_config.to_dict() | {"transformers_version": None}
    yield json.dumps([decoding, tokenizer.get_vocab()], sort_keys=True, default=str).encode()
