"""Pictures of what a run's newest model looks at as it writes the translations of its report."""

import logging
from pathlib import Path
from typing import Any

from training.run_record import RunRecord
from vanilla_transformer.run_facts import MODEL

logger = logging.getLogger(__name__)


def draw_attention(folder: Path, run: RunRecord) -> dict[str, bytes]:
    """SVG pictures by source sentence; of sentences and runs that have none, none."""
    samples = run.samples
    if not samples:
        return {}
    try:
        translator = _newest_model(folder, run)
    except (ValueError, OSError) as error:  # also a checkpoint that goes while we look
        logger.warning("The report shows no attention: %s", error)
        return {}
    pictures = {sample["source"]: _draw(translator, sample) for sample in samples}
    return {source: picture for source, picture in pictures.items() if picture}


def _newest_model(folder: Path, run: RunRecord) -> Any:
    """What the run made or, until it has come to its end, its last checkpoint."""
    from training.checkpoints import Checkpoints
    from vanilla_transformer.translators import load_translator

    place = folder / MODEL
    if not run.is_finished:
        latest = Checkpoints(folder / "checkpoints", keep_last=1, keep_best=1).latest()
        if latest is None:
            raise ValueError("there is no checkpoint yet.")
        place = latest.folder
    return load_translator(str(place))


def _draw(translator: Any, sample: dict[str, str]) -> bytes | None:
    """The layer whose cross-attention aligns best; nothing where a picture has no room for it."""
    from vanilla_transformer.attention_maps import look_through

    try:
        maps = look_through(translator, sample["source"], sample["translation"])
        return maps.draw("layer", "cross").to_bytes("svg")
    except ValueError:  # no word was written, or too many
        return None
