"""Token ids on disk, memory-mapped: an Arrow file in pieces of equally many pairs.

`datasets.Dataset.from_file` opens it too. Reading goes straight to Arrow's buffers, which takes a
tenth of the time that a `Dataset` needs.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

PAIRS_A_PIECE = 2**14
IDS, SIZES = pa.list_(pa.int32()), pa.list_(pa.uint16())
SIDES = {"source": IDS, "target": IDS}
SIDES_IN_WORDS = SIDES | {"source_words": SIZES, "target_words": SIZES}

Pieces = list[tuple[NDArray[Any], NDArray[Any]]]  # offsets and values of one column


class TokenWriter:
    """Writes rows of token ids, and of the words' sizes if they are wanted."""

    def __init__(self, path: Path, *, with_words: bool) -> None:
        self.schema = pa.schema(SIDES_IN_WORDS if with_words else SIDES)
        self._file = pa.ipc.new_stream(str(path), self.schema)
        self._waiting: list[tuple[list[int], ...]] = []
        self.written = 0
        self._digest = hashlib.sha256()

    def write(self, rows: Iterable[tuple[list[int], ...]]) -> None:
        """Add rows: source, target, and if wanted the sizes of the source's and target's words."""
        before = len(self._waiting)
        self._waiting += rows
        self.written += len(self._waiting) - before
        while len(self._waiting) >= PAIRS_A_PIECE:
            self._write_piece(self._waiting[:PAIRS_A_PIECE])
            del self._waiting[:PAIRS_A_PIECE]

    @property
    def digest(self) -> str:
        """After the last row is written: other token ids on either side give another one."""
        return self._digest.hexdigest()

    def _write_piece(self, rows: list[tuple[list[int], ...]]) -> None:
        columns = [
            pa.array(values, kind)
            for values, kind in zip(zip(*rows, strict=True), self.schema.types, strict=True)
        ]
        for offsets, ids in map(_buffers, columns[: len(SIDES)]):
            self._digest.update(offsets.tobytes())
            self._digest.update(ids.tobytes())
        self._file.write_batch(pa.record_batch(columns, schema=self.schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._waiting:
            self._write_piece(self._waiting)
        self._file.close()


class TokenFile:
    """The rows of an Arrow file, each read where it lies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise ValueError(f"{path} must be a whole Arrow file, got: {error}.") from error
        self.columns: dict[str, Pieces] = {
            name: [_buffers(chunk) for chunk in table[name].chunks] for name in table.column_names
        }

    def lengths(self, name: str) -> NDArray[np.int32]:
        """The length of every row of a column."""
        pieces = [np.diff(offsets) for offsets, _ in self.columns[name]]
        return np.concatenate([np.empty(0, np.int32), *pieces])

    def rows(self, indices: NDArray[np.int64], name: str) -> list[list[int]]:
        """Some rows of a column."""
        pieces = self.columns[name]
        found = []
        for index in indices.tolist():
            offsets, values = pieces[index // PAIRS_A_PIECE]
            row = index % PAIRS_A_PIECE
            found.append(values[offsets[row] : offsets[row + 1]].tolist())
        return found

    def __reduce__(self) -> tuple[type["TokenFile"], tuple[Path]]:
        """Another process opens the file itself."""
        return TokenFile, (self.path,)


def _buffers(chunk: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    return chunk.offsets.to_numpy(), chunk.values.to_numpy()
