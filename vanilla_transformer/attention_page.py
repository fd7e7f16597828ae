"""Attention maps as one HTML page to click through, with nothing outside of it.

The numbers travel inside the page, rounded to 1/65535; text only ever enters it as JSON, in which
nothing can end the script it stands in.
"""

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .attention_labels import Side

if TYPE_CHECKING:
    from .attention_maps import AttentionMaps

TEMPLATE = Path(__file__).with_suffix(".html")
PLACE = "THE MAPS"
MOST_WORDS = 200  # beside a map: beyond, browsers get slow
MOST_CELLS = 6_000_000  # of all maps: the paper's base with as many words; 16 megabytes
VIEWS = {"layer": "matrix", "head": "matrix", "links": "lines"}  # of a picture, here
STEPS = 65_535


def compose_page(
    maps: "AttentionMaps", view: str | None, kind: str | None, layer: int | None, head: int | None
) -> str:
    """The page, which begins with a view of a head, or of all of a layer."""
    check_view(view)
    kind = kind or maps.default_kind()
    maps.check(kind, layer, head)
    longest = max(len(side.labels) for side in (maps.source, maps.read, maps.written))
    if longest > MOST_WORDS:
        raise ValueError(
            f"A page must have at most {MOST_WORDS} words a side, got {longest}: look at a shorter "
            "sentence."
        )
    cells = sum(weights.numel() for weights in maps.weights.values())
    if cells > MOST_CELLS:
        raise ValueError(
            f"A page must have at most {MOST_CELLS:,} weights in all its maps, got {cells:,}: look "
            "at a shorter sentence, or write a picture."
        )
    start = {
        "view": VIEWS.get(view or "", "matrix"),
        "kind": kind,
        "layer": layer or maps.default_layer(kind),
        "head": head or 0,
    }
    data = json.dumps({**_describe(maps), "start": start}).replace("<", "\\u003c")
    before, after = TEMPLATE.read_text(encoding="utf-8").split(PLACE)
    return f"{before}{data}{after}"


def check_view(view: str | None) -> None:
    """Refuse a view with which a page cannot begin."""
    if view is not None and view not in VIEWS:
        raise ValueError(
            f"The view of a page must be one of {', '.join(VIEWS)}, got {view!r}: leave it out, "
            "for a page shows all heads and the alignment beside any view, or write a picture."
        )


def _describe(maps: "AttentionMaps") -> dict[str, Any]:
    """What the script of the page reads."""
    names = {"source": maps.source, "read": maps.read, "written": maps.written}
    kinds = {}
    for kind, weights in maps.weights.items():
        rows, columns = (_name_of(side, names) for side in maps.sides(kind))
        kinds[kind] = {
            "rows": rows,
            "columns": columns,
            "shape": list(weights.shape),
            "weights": _packed(weights),
        }
    sides = {name: {"labels": side.labels, "words": side.words} for name, side in names.items()}
    return {"kinds": kinds, "sides": sides, "links": maps.links()}


def _name_of(side: Side, names: dict[str, Side]) -> str:
    return next(name for name, one in names.items() if one is side)


def _packed(weights: Tensor) -> str:
    """Numbers of two bytes, the lower first."""
    steps = (weights * STEPS).round().to(torch.int32).numpy().astype("<u2")
    return base64.b64encode(steps.tobytes()).decode()
